#include "mainspring/lab/profile_page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mainspring/io/json.h"
#include "mainspring/lab/profile_text.h"
#include "mainspring/lab/roofline_svg.h"
#include "mainspring/lab/timeline_for_test.h"

namespace mainspring {
namespace {

constexpr Ceilings kCeilings{.flops = 1e10, .bandwidth = 1e9};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

ProfileFacts facts() {
  return {.title = "a <recipe>",
          .description = "tiny",
          .num_steps = 2,
          .num_tokens = 12,
          .num_micro_batches = 2,
          .model_flops = 1e6,
          .mfu_formula = "6 N",
          .mfu = 0.25,
          .nominal_peak = 2e10,
          .nominal_mfu = 0.125};
}

TEST(ProfilePage, IsOnePageThatLoadsNothing) {
  const Timeline timeline = test::two_steps();
  const std::string page = profile_page({make_profile(timeline, kCeilings, ProfileBy::kOp),
                                         make_profile(timeline, kCeilings, ProfileBy::kLayer)},
                                        facts(), {"raise \"this\" & that"});
  for (const char* outside : {"http:", "https:", "src=", "<script", "@import", "url("}) {
    EXPECT_EQ(count(page, outside), 0u) << outside;
  }
  EXPECT_EQ(count(page, "<recipe>"), 0u);
  EXPECT_NE(page.find("a &lt;recipe&gt;"), std::string::npos);
  EXPECT_NE(page.find("raise &quot;this&quot; &amp; that"), std::string::npos);
  EXPECT_EQ(count(page, ">unattributed<"), 2u);
  EXPECT_NE(page.find("layers.1: all ops, backward"), std::string::npos);
}

TEST(Roofline, HasADotPerOpAndBothCeilings) {
  const Profile profile = make_profile(test::two_steps(), kCeilings, ProfileBy::kOp);
  const std::string svg = roofline_svg(profile);
  EXPECT_EQ(count(svg, "<circle"), 3u);  // the host's work has no place
  EXPECT_EQ(count(svg, "ceiling compute"), 1u);
  EXPECT_EQ(count(svg, "ceiling memory"), 1u);
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
}

TEST(ProfileJson, BooksBalanceAndNothingIsHidden) {
  const Profile profile = make_profile(test::two_steps(), kCeilings, ProfileBy::kPath);
  const Json json =
      parse_json(json_text(profile_json(profile, facts(), {"advice"})), "profile").value();
  int64_t sum = json["unattributed_ns"].get<int64_t>();
  EXPECT_GT(sum, 0);
  for (const Json& line : json["lines"]) sum += line["own_ns"].get<int64_t>();
  EXPECT_EQ(sum, json["wall_ns"].get<int64_t>());
  EXPECT_EQ(json["nominal_mfu"], 0.125);
}

TEST(ProfileText, ShowsEveryLineTheRestAndTheSum) {
  const Profile profile = make_profile(test::two_steps(), kCeilings, ProfileBy::kOp);
  const std::string text = profile_text(profile, facts(), {"do this"});
  for (const char* part : {"linear, forward", "rms_norm, backward", "data", "unattributed", "wall",
                           "- do this", "MFU 25 %", "12 % of the nominal 20 GFLOP/s"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace mainspring

#include "mainspring/run/report.h"

#include <gtest/gtest.h>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

ReportData data_of(const std::string& state) {
  ReportData data;
  data.info.title = "sft";
  data.state = state;
  data.curves.push_back({"loss", {{1, 2.0, 2.0, 2.0}, {2, 1.5, 1.0, 2.0}}});
  return data;
}

/// The block of JSON in the page.
std::string json_of(const std::string& page) {
  const std::string open = "id=\"run-data\">";
  const size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(Report, ThePageNeedsNothingFromElsewhere) {
  const std::string page = make_report(data_of("running"));
  for (const char* text : {"http://", "https://", "src=", "@import", "url(", "//cdn"}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
}

TEST(Report, MarkupInSamplesAndMessagesStaysText) {
  ReportData data = data_of("running");
  data.info.title = "<img onerror=x>";
  data.samples.push_back({1, "train", "t", {{"</script><script>alert(1)</script><!--", true, {}}}});
  data.events.push_back({{"warning", 1, "</script>", {}}, "now"});
  const std::string page = make_report(data);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<img onerror"), std::string::npos);
  const Json json = Json::parse(json_of(page));
  EXPECT_EQ(json["samples"][0]["pieces"][0][0], "</script><script>alert(1)</script><!--");
}

TEST(Report, BytesThatAreNotUtf8DoNotBreakThePage) {
  ReportData data = data_of("running");
  data.samples.push_back({1, "train", "t", {{"\xf0\x9f", true, {}}, {"ok", false, -0.5}}});
  EXPECT_FALSE(Json::parse(json_of(make_report(data)), nullptr, false).is_discarded());
}

TEST(Report, OnlyARunningPageRefreshesItself) {
  EXPECT_NE(make_report(data_of("running")).find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_EQ(make_report(data_of("finished")).find("http-equiv=\"refresh\""), std::string::npos);
}

TEST(Report, ExtremesAreInThePageOnlyWherePointsWereMerged) {
  const Json json = Json::parse(json_of(make_report(data_of("running"))));
  EXPECT_EQ(json["curves"]["loss"]["mean"][1].get<double>(), 1.5);
  EXPECT_EQ(json["curves"]["loss"]["min"][1].get<double>(), 1.0);
  ReportData data = data_of("running");
  data.curves[0].points.pop_back();
  EXPECT_FALSE(Json::parse(json_of(make_report(data)))["curves"]["loss"].contains("min"));
}

TEST(Report, ARunWithoutAnyStepStillMakesAPage) {
  ReportData data;
  data.state = "running";
  EXPECT_NE(make_report(data).find("</html>"), std::string::npos);
}

}  // namespace
}  // namespace mainspring

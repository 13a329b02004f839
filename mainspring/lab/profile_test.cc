#include "mainspring/lab/profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mainspring/lab/timeline_for_test.h"

namespace mainspring {
namespace {

constexpr Ceilings kCeilings{.flops = 1e9, .bandwidth = 1e8};  // ridge: 10 FLOPs a byte

int64_t sum_of(const Profile& profile) {
  return profile.time_of([](const ProfileLine&) { return true; }) + profile.unattributed_ns;
}

TEST(Profile, PartsAndWhatNothingExplainsAddUpToTheWallTime) {
  const Timeline timeline = test::two_steps();
  for (const ProfileBy by : {ProfileBy::kOp, ProfileBy::kLayer, ProfileBy::kPath}) {
    const Profile profile = make_profile(timeline, kCeilings, by);
    EXPECT_EQ(profile.wall_ns, timeline.spans()[0].end_ns - timeline.spans()[0].begin_ns);
    EXPECT_EQ(sum_of(profile), profile.wall_ns);
    EXPECT_GT(profile.unattributed_ns, 0);
    EXPECT_EQ(profile.step_ns.size(), 2u);
    EXPECT_EQ(profile.rows, 12);
  }
}

TEST(Profile, OneLinePerOpAndPhaseLongestFirst) {
  const Profile profile = make_profile(test::two_steps(), kCeilings, ProfileBy::kOp);
  ASSERT_EQ(profile.lines.size(), 4u);
  EXPECT_EQ(profile.lines[0].name, "linear");
  EXPECT_EQ(profile.lines[0].phase, "forward");
  EXPECT_EQ(profile.lines[0].calls, 4);  // two layers, two steps
  EXPECT_EQ(profile.lines[0].flops, 4 * 1000.0);
  for (size_t i = 1; i < profile.lines.size(); ++i) {
    EXPECT_GE(profile.lines[i - 1].own_ns, profile.lines[i].own_ns);
  }
}

TEST(Profile, LayersAndPathsKeepTheirOwnLines) {
  const Profile layers = make_profile(test::two_steps(), kCeilings, ProfileBy::kLayer);
  int found = 0;
  for (const ProfileLine& line : layers.lines) {
    if (line.path == "layers.1" && line.phase == "forward") {
      EXPECT_EQ(line.calls, 2);
      ++found;
    }
  }
  EXPECT_EQ(found, 1);
  const Profile paths = make_profile(test::two_steps(), kCeilings, ProfileBy::kPath);
  EXPECT_TRUE(std::any_of(paths.lines.begin(), paths.lines.end(), [](const ProfileLine& line) {
    return line.path == "layers.1.mlp" && line.name == "linear";
  }));
}

TEST(Profile, TheRidgeParts) {
  ProfileLine line{.calls = 1, .own_ns = 1000, .flops = 500, .bytes = 10};
  EXPECT_EQ(bound_of(line, kCeilings), Bound::kCompute);
  EXPECT_DOUBLE_EQ(of_ceiling(line, kCeilings), 0.5);
  line.bytes = 100;
  EXPECT_EQ(bound_of(line, kCeilings), Bound::kMemory);
  EXPECT_DOUBLE_EQ(of_ceiling(line, kCeilings), 1.0);
  line.flops = line.bytes = 0;
  EXPECT_EQ(bound_of(line, kCeilings), Bound::kNone);
  EXPECT_EQ(of_ceiling(line, kCeilings), 0.0);
}

TEST(Profile, AnEmptyTimelineIsAnEmptyProfile) {
  const Profile profile = make_profile(Timeline(1), kCeilings, ProfileBy::kOp);
  EXPECT_EQ(profile.wall_ns, 0);
  EXPECT_EQ(profile.share(0), 0.0);
}

TEST(Profile, WhatThreadsWaitedIsALineOfItsOwn) {
  Timeline timeline = test::two_steps();
  const Profile before = make_profile(timeline, kCeilings, ProfileBy::kOp);
  int64_t waited = 0;
  for (size_t i = 0; i < timeline.spans().size(); ++i) {
    if (timeline.label(timeline.spans()[i].label).name != "rms_norm") continue;
    timeline.set_waiting(i, 100);
    waited += 100;
  }
  for (const ProfileBy by : {ProfileBy::kOp, ProfileBy::kLayer, ProfileBy::kPath}) {
    const Profile profile = make_profile(timeline, kCeilings, by);
    EXPECT_EQ(sum_of(profile), profile.wall_ns);
    const auto named = [&](std::string_view name) {
      return profile.time_of([&](const ProfileLine& line) { return line.name == name; });
    };
    EXPECT_EQ(named(kWaitingLine), waited);
    if (by != ProfileBy::kOp) continue;
    const int64_t norm_before =
        before.time_of([](const ProfileLine& line) { return line.name == "rms_norm"; });
    EXPECT_EQ(named("rms_norm"), norm_before - waited);
  }
}

}  // namespace
}  // namespace mainspring

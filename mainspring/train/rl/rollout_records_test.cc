#include "mainspring/train/rl/rollout_records.h"

#include <gtest/gtest.h>

#include <fstream>

#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

std::vector<RolloutGroup> two_groups() {
  std::vector<RolloutGroup> groups(2);
  for (size_t g = 0; g < 2; ++g) {
    groups[g].task_index = 40 + g;
    groups[g].task = "sums";
    for (int s = 0; s < 2; ++s) {
      Trajectory sample;
      sample.branches.push_back({.tokens = {1, 2, 3},
                                 .sampled = {0, 1, 1},
                                 .logprobs = {0.0f, -0.1f, -1e-30f},
                                 .versions = {-1, 6, 7}});
      sample.rewards = {{"format", 0.1}, {"right", s == 0 ? 0.2 : 0.0}};
      sample.reward = 0.1 + (s == 0 ? 0.2 : 0.0);
      sample.turns = 2;
      sample.is_truncated = s == 1;
      groups[g].samples.push_back(sample);
    }
  }
  groups[1].samples[1].outcome = EpisodeOutcome::kTimeout;
  groups[1].samples[1].message = "5 s have passed";
  return groups;
}

TEST(RolloutRecords, ReadBackAreTheSameBits) {
  const TestDir dir;
  const auto groups = two_groups();
  ASSERT_TRUE(write_rollouts(dir.path(), 12, groups, {{0.5, -0.5}, {1.0 / 3.0, 0}}).ok());
  const auto read = read_rollouts(dir.path(), 12);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  ASSERT_EQ(read->groups.size(), 2u);
  for (size_t g = 0; g < 2; ++g) {
    EXPECT_EQ(read->groups[g].task_index, groups[g].task_index);
    for (size_t s = 0; s < 2; ++s) {
      const Trajectory& was = groups[g].samples[s];
      const Trajectory& is = read->groups[g].samples[s];
      EXPECT_EQ(is.branches[0].tokens, was.branches[0].tokens);
      EXPECT_EQ(is.branches[0].sampled, was.branches[0].sampled);
      EXPECT_EQ(is.branches[0].logprobs, was.branches[0].logprobs);
      EXPECT_EQ(is.branches[0].versions, was.branches[0].versions);
      EXPECT_EQ(is.reward, was.reward);
      EXPECT_EQ(is.rewards, was.rewards);
      EXPECT_EQ(is.outcome, was.outcome);
      EXPECT_EQ(is.message, was.message);
      EXPECT_EQ(is.is_truncated, was.is_truncated);
    }
  }
  EXPECT_EQ(read->advantages[1][0], 1.0 / 3.0);
}

TEST(RolloutRecords, ANewRunKeepsOnlyStepsUpToItsOwn) {
  const TestDir dir;
  for (const int64_t step : {1, 2, 3, 4}) {
    ASSERT_TRUE(write_rollouts(dir.path(), step, two_groups(), {{0, 0}, {0, 0}}).ok());
  }
  ASSERT_TRUE(prune_rollouts(dir.path(), 3, 2).ok());
  EXPECT_EQ(recorded_steps(dir.path()), (std::vector<int64_t>{2, 3}));
  const std::string left = dir.path() + "/rollouts/.tmp-1-1-step-000004.jsonl";
  std::ofstream(left) << "half a li";
  ASSERT_TRUE(sweep_rollouts(dir.path(), 2, 0).ok());
  EXPECT_FALSE(std::ifstream(left).good());
  EXPECT_EQ(recorded_steps(dir.path()), (std::vector<int64_t>{2}));
}

TEST(RolloutRecords, AMissingStepNamesThoseThatAreThere) {
  const TestDir dir;
  ASSERT_TRUE(write_rollouts(dir.path(), 7, two_groups(), {{0, 0}, {0, 0}}).ok());
  const Status status = read_rollouts(dir.path(), 9).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("7 to 7"), std::string::npos) << status.message();
}

TEST(RolloutRecords, ABrokenLineIsRefusedByNumberAndField) {
  const TestDir dir;
  ASSERT_TRUE(write_rollouts(dir.path(), 1, two_groups(), {{0, 0}, {0, 0}}).ok());
  std::ofstream(rollouts_path(dir.path(), 1), std::ios::app) << "{\"group\": 2}\n";
  const Status status = read_rollouts(dir.path(), 1).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(":5: task_index"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace mainspring

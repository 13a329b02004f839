#include "mainspring/train/rl/task_statistics.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

RolloutGroup group_of(const std::string& task, const std::vector<double>& rewards) {
  RolloutGroup group;
  group.task = task;
  for (const double reward : rewards) group.samples.emplace_back().reward = reward;
  return group;
}

TEST(TaskStatistics, CountsByTaskAndPrefersTheUncertain) {
  TaskStatistics statistics;
  statistics.add({group_of("easy", {1, 1, 1, 1}), group_of("even", {1, 0, 1, 0}),
                  group_of("hard", {0, 0, 0.5, 0})},
                 1.0);
  EXPECT_EQ(statistics.counts().at("easy").successes, 4);
  EXPECT_EQ(statistics.counts().at("hard").successes, 0);
  EXPECT_DOUBLE_EQ(statistics.uncertainty("even"), 0.25);
  EXPECT_DOUBLE_EQ(statistics.uncertainty("never seen"), 0.25);
  EXPECT_LT(statistics.uncertainty("easy"), 0.25);
  EXPECT_DOUBLE_EQ(statistics.uncertainty("easy"), statistics.uncertainty("hard"));
}

TEST(TaskStatistics, FailedEpisodesCountForNothing) {
  TaskStatistics statistics;
  RolloutGroup group = group_of("a", {1, 0});
  group.samples[1].outcome = EpisodeOutcome::kGarbage;
  statistics.add({group}, 1.0);
  EXPECT_EQ(statistics.counts().at("a").attempts, 1);
}

TEST(TaskStatistics, TextAndBack) {
  TaskStatistics statistics;
  statistics.add({group_of("a \"b\"", {1, 0})}, 1.0);
  TaskStatistics again;
  ASSERT_TRUE(again.restore(statistics.text()).ok());
  EXPECT_EQ(again.counts().at("a \"b\"").attempts, 2);
  EXPECT_EQ(again.text(), statistics.text());
  EXPECT_FALSE(again.restore("[1]").ok());
  EXPECT_FALSE(again.restore("{\"a\": [1]}").ok());
}

}  // namespace
}  // namespace mainspring

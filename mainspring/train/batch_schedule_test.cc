#include "mainspring/train/batch_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace mainspring {
namespace {

std::vector<int64_t> sizes(const BatchSchedule& schedule, int64_t steps) {
  std::vector<int64_t> all;
  for (int64_t step = 0; step < steps; ++step) all.push_back(schedule.size(step));
  return all;
}

TEST(BatchSchedule, WithoutARampEveryBatchIsFull) {
  TrainRecipe recipe;
  recipe.batch_size = 6;
  const BatchSchedule schedule = BatchSchedule::of(recipe);
  EXPECT_FALSE(schedule.in_tokens);
  EXPECT_EQ(sizes(schedule, 3), (std::vector<int64_t>{6, 6, 6}));
  EXPECT_EQ(schedule.total(3), 18);
}

TEST(BatchSchedule, RisesEvenlyAndIsFullFromTheLastStepOfTheRamp) {
  TrainRecipe recipe;
  recipe.batch_size = 8;
  recipe.batch_ramp_from = 2;
  recipe.batch_ramp_steps = 4;
  const BatchSchedule schedule = BatchSchedule::of(recipe);
  EXPECT_EQ(sizes(schedule, 6), (std::vector<int64_t>{2, 3, 5, 6, 8, 8}));  // 1.5 a step, down
  for (int64_t steps : {0, 1, 4, 5, 6}) {
    int64_t sum = 0;
    for (int64_t size : sizes(schedule, steps)) sum += size;
    EXPECT_EQ(schedule.total(steps), sum) << steps;
  }
}

TEST(BatchSchedule, CountsTokensWhereTheRecipeDoes) {
  TrainRecipe recipe;
  recipe.batch_tokens = int64_t{1} << 40;  // a rise that a step's number must not overflow
  recipe.batch_ramp_from = 1;
  recipe.batch_ramp_steps = int64_t{1} << 30;
  const BatchSchedule schedule = BatchSchedule::of(recipe);
  EXPECT_TRUE(schedule.in_tokens);
  EXPECT_EQ(schedule.size(0), 1);
  EXPECT_EQ(schedule.size(int64_t{1} << 29), int64_t{1} << 39);
  EXPECT_EQ(schedule.size(int64_t{1} << 30), int64_t{1} << 40);
}

}  // namespace
}  // namespace mainspring

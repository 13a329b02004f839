#include "mainspring/train/rl/critic.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mainspring {
namespace {

// A prompt of one token and a reply of two.
Trajectory two_tokens(double reward, int32_t token) {
  Trajectory sample;
  sample.branches = {{.tokens = {1, token, 3},
                      .sampled = {0, 1, 1},
                      .logprobs = {0, -1, -1},
                      .versions = {-1, 0, 0}}};
  sample.reward = reward;
  return sample;
}

RlRecipe with_critic() {
  RlRecipe rl;
  rl.algorithm = "ppo";
  apply_rl_algorithm(rl);
  return rl;
}

TEST(Critic, TheRewardComesWithTheLastTokenAndIsHandedBack) {
  RlRecipe rl = with_critic();
  rl.discount = 0.5;
  rl.gae_lambda = 0.5;
  RolloutGroup group;
  group.samples = {two_tokens(1.0, 2), two_tokens(0.0, 5)};
  const std::vector<RolloutGroup> groups{group};
  RlBatch batch = make_rl_batch(groups, rl, 0).value();
  ASSERT_EQ(batch.datums.size(), 2u);
  fill_gae(batch, groups, rl, {{0.25f, 0.5f}, {0.25f, 0.5f}});
  // First sample: last error 1 - 0.5 = 0.5; before it 0.5 * 0.5 - 0.25 + 0.5 * 0.5 * 0.5 = 0.125.
  EXPECT_EQ(batch.datums[0].inputs["returns"], (std::vector<float>{0.375f, 1.0f}));
  // Second: 0 - 0.5 = -0.5; before it 0.5 * 0.5 - 0.25 - 0.125 = -0.125.
  EXPECT_EQ(batch.datums[1].inputs["returns"], (std::vector<float>{0.125f, 0.0f}));
  EXPECT_EQ(batch.datums[0].inputs["old_values"], (std::vector<float>{0.25f, 0.5f}));
  // Mean 0, squares 2 (0.25 + 0.015625) over n - 1 = 3.
  const double deviation = std::sqrt(2.0 * (0.25 + 0.015625) / 3.0);
  EXPECT_NEAR(batch.datums[0].inputs["advantages"][1], 0.5 / deviation, 1e-6);
  EXPECT_NEAR(batch.datums[1].inputs["advantages"][0], -0.125 / deviation, 1e-6);
}

TEST(Critic, BranchesOfASampleAreOneEpisode) {
  RlRecipe rl = with_critic();
  rl.gae_lambda = 1.0;
  RolloutGroup group;
  group.samples = {two_tokens(1.0, 2)};
  group.samples[0].branches.push_back(group.samples[0].branches[0]);
  const std::vector<RolloutGroup> groups{group};
  RlBatch batch = make_rl_batch(groups, rl, 0).value();
  ASSERT_EQ(batch.datums.size(), 2u);  // never merged: their tokens stand at other places
  fill_gae(batch, groups, rl, {{0.0f, 0.0f}, {0.0f, 0.0f}});
  for (Datum& datum : batch.datums) {
    EXPECT_EQ(datum.inputs["returns"], (std::vector<float>{1.0f, 1.0f}));
  }
}

}  // namespace
}  // namespace mainspring

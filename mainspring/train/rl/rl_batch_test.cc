#include "mainspring/train/rl/rl_batch.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mainspring {
namespace {

// A prompt of two tokens and a reply of `length`.
Trajectory sample_of(double reward, int64_t length) {
  Branch branch{.tokens = {7, 8}, .sampled = {0, 0}, .logprobs = {0, 0}, .versions = {-1, -1}};
  for (int64_t i = 0; i < length; ++i) {
    branch.tokens.push_back(static_cast<int32_t>(20 + i));
    branch.sampled.push_back(1);
    branch.logprobs.push_back(-0.5f - static_cast<float>(i));
    branch.versions.push_back(3);
  }
  Trajectory sample;
  sample.branches = {branch};
  sample.reward = reward;
  return sample;
}

RolloutGroup group_of(const std::vector<double>& rewards, int64_t length = 3) {
  RolloutGroup group;
  for (const double reward : rewards) group.samples.push_back(sample_of(reward, length));
  return group;
}

RlRecipe recipe_of(const std::string& advantage) {
  RlRecipe rl;
  rl.advantage = advantage;
  return rl;
}

RlBatch must_batch(const std::vector<RolloutGroup>& groups, const RlRecipe& rl, int64_t step,
                   const PerSample& penalties = {}) {
  return make_rl_batch(groups, rl, step, penalties).value();
}

TEST(RlBatch, GroupAdvantagesByHand) {
  const std::vector<RolloutGroup> groups{group_of({1, 0, 0, 1})};  // mean 0.5, deviation sqrt(1/3)
  const auto mean = must_batch(groups, recipe_of("grpo_no_std"), 0).advantages[0];
  EXPECT_EQ(mean, (std::vector<double>{0.5, -0.5, -0.5, 0.5}));
  const auto std = must_batch(groups, recipe_of("grpo"), 0).advantages[0];
  EXPECT_DOUBLE_EQ(std[0], 0.5 / (std::sqrt(1.0 / 3.0) + 1e-4));
  EXPECT_DOUBLE_EQ(std[1], -std[0]);
}

TEST(RlBatch, LeaveOneOutIsRewardLessTheMeanOfTheOthers) {
  const auto own = must_batch({group_of({3, 1, 2})}, recipe_of("rloo"), 0).advantages[0];
  EXPECT_DOUBLE_EQ(own[0], 3 - 1.5);
  EXPECT_DOUBLE_EQ(own[1], 1 - 2.5);
  EXPECT_DOUBLE_EQ(own[2], 2 - 2.0);
}

TEST(RlBatch, BatchAdvantagesHaveTheBatchsMeanAndDeviation) {
  const std::vector<RolloutGroup> groups{group_of({1, 0}), group_of({3, 4})};
  const PerSample all = must_batch(groups, recipe_of("reinforce_pp"), 0).advantages;
  const double deviation = std::sqrt((1 + 4 + 1 + 4) / 3.0);  // of 1 0 3 4, mean 2
  EXPECT_DOUBLE_EQ(all[0][0], -1 / (deviation + 1e-4));
  EXPECT_DOUBLE_EQ(all[1][1], 2 / (deviation + 1e-4));
  const PerSample centred = must_batch(groups, recipe_of("reinforce_pp_baseline"), 0).advantages;
  EXPECT_DOUBLE_EQ(centred[0][0], 0.5 / (std::sqrt(4 * 0.25 / 3.0) + 1e-4));
}

TEST(RlBatch, AFailedEpisodeIsInNoBaselineAndNotLearned) {
  RolloutGroup group = group_of({1, 0, 100});
  group.samples[2].outcome = EpisodeOutcome::kCrash;
  const RlBatch batch = must_batch({group}, recipe_of("grpo_no_std"), 0);
  EXPECT_EQ(batch.advantages[0], (std::vector<double>{0.5, -0.5, 0.0}));
  EXPECT_EQ(batch.datums.size(), 2u);
  EXPECT_EQ(batch.normaliser, 2.0);  // samples
}

TEST(RlBatch, OnlySampledTokensAreLearned) {
  const RlBatch batch = must_batch({group_of({1, 0})}, recipe_of("grpo_no_std"), 5);
  const Datum& datum = batch.datums[0];
  EXPECT_EQ(datum.tokens, (std::vector<int32_t>{7, 8, 20, 21}));
  EXPECT_EQ(datum.targets, (std::vector<int32_t>{8, 20, 21, 22}));
  const float third = static_cast<float>(1.0 / 3.0);
  EXPECT_EQ(datum.weights, (std::vector<float>{0, third, third, third}));
  EXPECT_EQ(datum.inputs.at("logprobs"), (std::vector<float>{0, -0.5f, -1.5f, -2.5f}));
  EXPECT_EQ(datum.inputs.at("advantages"), (std::vector<float>{0, 0.5f, 0.5f, 0.5f}));
  EXPECT_NE(datum.sample_index, batch.datums[1].sample_index);
  EXPECT_EQ(datum.group, 0);
}

TEST(RlBatch, NormalisersAreCountsOverTheWholeStep) {
  std::vector<RolloutGroup> groups{group_of({1, 0}, 3), group_of({1, 1}, 5)};
  RlRecipe rl = recipe_of("grpo_no_std");
  rl.max_new_tokens = 10;
  rl.normaliser = "token_sum";
  EXPECT_EQ(must_batch(groups, rl, 0).normaliser, 16.0);
  rl.normaliser = "constant";
  const RlBatch constant = must_batch(groups, rl, 0);
  EXPECT_EQ(constant.normaliser, 4.0);
  EXPECT_EQ(constant.datums[0].weights[1], 0.1f);
  // Groups without variance that are left out of the pass still count.
  rl.normaliser = "token_sum";
  rl.no_variance = "drop";
  const RlBatch dropped = must_batch(groups, rl, 0);
  EXPECT_EQ(dropped.normaliser, 16.0);
  EXPECT_EQ(dropped.datums.size(), 2u);
}

TEST(RlBatch, EqualSamplesOfAGroupAreOneDatumWithTheirWeightsAdded) {
  RlRecipe rl = recipe_of("grpo_no_std");
  rl.normaliser = "token_sum";
  const std::vector<RolloutGroup> groups{group_of({1, 0, 1, 1}), group_of({1, 0})};
  const RlBatch merged = must_batch(groups, rl, 0);
  ASSERT_EQ(merged.datums.size(), 4u);  // right and wrong of each group
  EXPECT_EQ(merged.datums[0].weights, (std::vector<float>{0, 3, 3, 3}));
  EXPECT_EQ(merged.datums[1].weights, (std::vector<float>{0, 1, 1, 1}));
  EXPECT_EQ(merged.normaliser, 18.0);
  rl.merge_equal = false;
  EXPECT_EQ(must_batch(groups, rl, 0).datums.size(), 6u);
}

TEST(RlBatch, APlainPolicyGradientHasSignedWeights) {
  RlRecipe rl = recipe_of("grpo_no_std");
  rl.loss = "policy_gradient";
  rl.normaliser = "token_sum";
  const RlBatch batch = must_batch({group_of({1, 0})}, rl, 0);
  EXPECT_EQ(batch.datums[0].weights, (std::vector<float>{0, 0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(batch.datums[1].weights, (std::vector<float>{0, -0.5f, -0.5f, -0.5f}));
  EXPECT_EQ(rl_loss_call(rl).name, "cross_entropy");
}

TEST(RlBatch, RepliesNearTheirLimitArePenalised) {
  RlRecipe rl;
  rl.max_new_tokens = 10;
  rl.overlong_buffer = 4;
  EXPECT_EQ(shaped_reward(sample_of(1, 6), rl), 1.0);
  EXPECT_EQ(shaped_reward(sample_of(1, 8), rl), 0.5);
  EXPECT_EQ(shaped_reward(sample_of(1, 10), rl), 0.0);
}

TEST(RlBatch, KlPenaltyIsSummedOverASamplesTokens) {
  RlRecipe rl;
  rl.kl = "k1";
  rl.kl_weight = 2.0;
  const std::vector<RolloutGroup> groups{group_of({1, 0}, 2)};
  const RlBatch batch = must_batch(groups, rl, 0);
  const std::vector<std::vector<float>> reference{{9, -1.0f, -1.0f}, {9, -0.5f, -1.5f}};
  const PerSample penalties = kl_penalties(groups, batch, rl, reference);
  EXPECT_DOUBLE_EQ(penalties[0][0], 2 * ((-0.5 + 1.0) + (-1.5 + 1.0)));
  EXPECT_DOUBLE_EQ(penalties[0][1], 0.0);
  const auto shifted = must_batch(groups, recipe_of("grpo_no_std"), 0, {{0.5, 0.0}});
  EXPECT_DOUBLE_EQ(shifted.advantages[0][0], 0.25);
}

}  // namespace
}  // namespace mainspring

#include "mainspring/losses/advantage.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

using Numbers = std::vector<double>;

Numbers advantages(AdvantageKind kind, const Numbers& rewards) {
  const std::vector<int64_t> groups(rewards.size(), 3);
  return group_advantages({.kind = kind, .eps = 0.0}, rewards, groups).value();
}

TEST(Advantage, EachKindOnASmallGroup) {
  // mean 1, unbiased standard deviation 1.
  EXPECT_EQ(advantages(AdvantageKind::kRaw, {0, 1, 2}), (Numbers{0, 1, 2}));
  EXPECT_EQ(advantages(AdvantageKind::kGrpo, {0, 1, 2}), (Numbers{-1, 0, 1}));
  EXPECT_EQ(advantages(AdvantageKind::kGrpoNoStd, {0, 1, 2}), (Numbers{-1, 0, 1}));
  EXPECT_EQ(advantages(AdvantageKind::kRloo, {0, 1, 2}), (Numbers{-1.5, 0, 1.5}));
}

TEST(Advantage, AGroupWithoutVarianceTeachesNothing) {
  for (const AdvantageKind kind :
       {AdvantageKind::kGrpo, AdvantageKind::kGrpoNoStd, AdvantageKind::kReinforcePlusPlus}) {
    EXPECT_EQ(advantages(kind, {0.1, 0.1, 0.1}), (Numbers{0, 0, 0}));
  }
  EXPECT_FALSE(has_reward_variance(Numbers{0.1, 0.1, 0.1}));
  EXPECT_TRUE(has_reward_variance(Numbers{0.1, 0.1, 0.2}));
  EXPECT_FALSE(has_reward_variance(Numbers{}));
}

TEST(Advantage, RefusesWhatHasNone) {
  const auto alone = group_advantages({.kind = AdvantageKind::kRloo}, Numbers{1}, {{7}});
  EXPECT_EQ(alone.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(alone.status().message().find("group 7"), std::string::npos);
  const auto infinite = group_advantages({}, Numbers{1, 1.0 / 0.0}, {{7, 7}});
  EXPECT_NE(infinite.status().message().find("rewards[1]"), std::string::npos);
  EXPECT_FALSE(group_advantages({}, Numbers{1, 2}, {{7}}).ok());
  EXPECT_NE(parse_advantage("grop").status().message().find("\"grpo\""), std::string::npos);
}

TEST(Advantage, OverlongAnswersArePunishedSoftly) {
  EXPECT_EQ(overlong_penalty(80, 100, 20), 0.0);
  EXPECT_EQ(overlong_penalty(90, 100, 20), -0.5);
  EXPECT_EQ(overlong_penalty(100, 100, 20), -1.0);
  EXPECT_EQ(overlong_penalty(101, 100, 20), -1.0);
}

TEST(Advantage, NormalisersGiveWholeBatchCounts) {
  EXPECT_EQ(token_weight(LengthNormaliser::kTokenSum, 4, 16), 1.0);
  EXPECT_EQ(token_weight(LengthNormaliser::kSequenceMean, 4, 16), 0.25);
  EXPECT_EQ(token_weight(LengthNormaliser::kConstant, 4, 16), 0.0625);
  EXPECT_EQ(batch_normaliser(LengthNormaliser::kTokenSum, 3, 50), 50.0);
  EXPECT_EQ(batch_normaliser(LengthNormaliser::kSequenceMean, 3, 50), 3.0);
  EXPECT_EQ(parse_normaliser("constant").value(), LengthNormaliser::kConstant);
}

}  // namespace
}  // namespace mainspring

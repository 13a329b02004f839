#include "mainspring/sample/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "mainspring/base/philox.h"
#include "mainspring/sample/fake_executor.h"

namespace mainspring {
namespace {

const fake::FakeRowMath kMath;

/// log(p) for p: then e^l sums to one and probabilities are readable.
std::vector<float> logits_from(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<float> noise(size_t n, uint32_t seed, float width) {
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) {
    const auto bits = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {seed, 0});
    logits[i] = (static_cast<float>(bits[0] >> 8) * 0x1p-24f - 0.5f) * width;
  }
  return logits;
}

TEST(TokenChooser, GreedyTakesTheLargestLogitAndTheLowestIdOnTies) {
  TokenChooser chooser(kMath, 5);
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, 2.0f, -1.0f};
  const Choice choice = chooser.choose(logits, {.temperature = 0.0f}, 0.9f);
  EXPECT_EQ(choice.token, 1);
  EXPECT_EQ(choice.logprob, 0.0f);
  EXPECT_EQ(choice.kept, 1);
  EXPECT_EQ(choice.raw_logprob, 2.0f - kMath.stats(logits.data(), 5).lse);
}

TEST(TokenChooser, PlainSamplingHasLogprobEqualToTheRawOneInEveryBit) {
  TokenChooser chooser(kMath, 1000);
  const auto logits = noise(1000, 3, 12.0f);
  for (const float u : {0.0f, 0.25f, 0.5f, 0.999f}) {
    const Choice choice = chooser.choose(logits, {}, u);
    EXPECT_EQ(choice.logprob, choice.raw_logprob);
    EXPECT_EQ(choice.kept, 1000);
  }
}

TEST(TokenChooser, InvertsTheCdfInTokenOrder) {
  TokenChooser chooser(kMath, 4);
  const auto logits = logits_from({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(chooser.choose(logits, {}, 0.0f).token, 0);
  EXPECT_EQ(chooser.choose(logits, {}, 0.09f).token, 0);
  EXPECT_EQ(chooser.choose(logits, {}, 0.11f).token, 1);
  EXPECT_EQ(chooser.choose(logits, {}, 0.49f).token, 1);
  EXPECT_EQ(chooser.choose(logits, {}, 0.51f).token, 2);
  EXPECT_EQ(chooser.choose(logits, {}, 0.71f).token, 3);
  EXPECT_EQ(chooser.choose(logits, {}, 1.0f - 0x1p-24f).token, 3);
}

TEST(TokenChooser, TemperatureDividesLogits) {
  TokenChooser chooser(kMath, 2);
  const std::vector<float> logits = {0.0f, 2.0f};
  const Choice choice = chooser.choose(logits, {.temperature = 2.0f}, 0.9f);
  EXPECT_EQ(choice.token, 1);
  EXPECT_NEAR(choice.logprob, 1.0 - std::log(1.0 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(choice.raw_logprob, 2.0 - std::log(1.0 + std::exp(2.0)), 1e-6);
}

TEST(TokenChooser, TopKKeepsTheLargestAndTheLowestIdsOnTies) {
  TokenChooser chooser(kMath, 5);
  const std::vector<float> logits = {1.0f, 0.0f, 1.0f, 1.0f, -3.0f};
  std::set<int32_t> seen;
  for (int i = 0; i < 64; ++i) {
    const Choice choice = chooser.choose(logits, {.top_k = 2}, static_cast<float>(i) / 64.0f);
    EXPECT_EQ(choice.kept, 2);
    EXPECT_NEAR(choice.logprob, std::log(0.5), 1e-6);
    seen.insert(choice.token);
  }
  EXPECT_EQ(seen, (std::set<int32_t>{0, 2}));
}

TEST(TokenChooser, TopPKeepsTheTokenThatCrosses) {
  TokenChooser chooser(kMath, 4);
  const auto logits = logits_from({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(chooser.choose(logits, {.top_p = 0.39f}, 0.5f).kept, 1);  // 0.4 crosses
  EXPECT_EQ(chooser.choose(logits, {.top_p = 0.41f}, 0.5f).kept, 2);  // 0.7
  EXPECT_EQ(chooser.choose(logits, {.top_p = 0.71f}, 0.5f).kept, 3);  // 0.9
  EXPECT_EQ(chooser.choose(logits, {.top_p = 0.91f}, 0.5f).kept, 4);
  const Choice choice = chooser.choose(logits, {.top_p = 0.5f}, 0.99f);
  EXPECT_EQ(choice.token, 3);
  EXPECT_NEAR(choice.logprob, std::log(0.3 / 0.7), 1e-6);
  EXPECT_NEAR(choice.raw_logprob, std::log(0.3), 1e-6);
}

TEST(TokenChooser, TopPCountsWhatTopKKept) {
  TokenChooser chooser(kMath, 4);
  const auto logits = logits_from({0.1, 0.4, 0.2, 0.3});
  // Of 0.4 and 0.3 the first is 0.57 of the law.
  EXPECT_EQ(chooser.choose(logits, {.top_k = 2, .top_p = 0.56f}, 0.5f).kept, 1);
  EXPECT_EQ(chooser.choose(logits, {.top_k = 2, .top_p = 0.58f}, 0.5f).kept, 2);
}

TEST(TokenChooser, MinPKeepsWhatIsNotMuchLessThanTheBest) {
  TokenChooser chooser(kMath, 4);
  const auto logits = logits_from({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(chooser.choose(logits, {.min_p = 0.2f}, 0.5f).kept, 4);  // 0.1 is 0.25 of the best
  EXPECT_EQ(chooser.choose(logits, {.min_p = 0.45f}, 0.5f).kept, 3);
  EXPECT_EQ(chooser.choose(logits, {.min_p = 0.7f}, 0.5f).kept, 2);
  EXPECT_EQ(chooser.choose(logits, {.min_p = 1.0f}, 0.5f).kept, 1);
}

TEST(TokenChooser, ACutLawLeavesNoTraceInTheNextRow) {
  TokenChooser used(kMath, 300);
  TokenChooser fresh(kMath, 300);
  const auto first = noise(300, 1, 10.0f);
  const auto second = noise(300, 2, 10.0f);
  const Law law{.temperature = 0.7f, .top_k = 50, .top_p = 0.8f, .min_p = 0.05f};
  used.choose(first, law, 0.3f);
  const Choice a = used.choose(second, law, 0.6f);
  const Choice b = fresh.choose(second, law, 0.6f);
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.logprob, b.logprob);
  EXPECT_EQ(a.kept, b.kept);
}

TEST(TokenChooser, CutsThatReachBeyondTheUsualDepthAreTheSameAsAFullSort) {
  // Logits spread over 100: the sorted prefix has to grow several times.
  const auto logits = noise(500, 9, 100.0f);
  TokenChooser chooser(kMath, 500);
  const Choice choice = chooser.choose(logits, {.top_k = 499}, 0.5f);
  EXPECT_EQ(choice.kept, 499);
  const auto order = chooser.best(logits, 500);
  ASSERT_EQ(order.size(), 500u);
  for (size_t i = 1; i < order.size(); ++i) {
    const float before = logits[static_cast<size_t>(order[i - 1])];
    const float after = logits[static_cast<size_t>(order[i])];
    EXPECT_TRUE(before > after || (before == after && order[i - 1] < order[i]));
  }
}

TEST(TokenChooser, AMinusInfinityLogitIsNeverChosenAndCountsForNothing) {
  TokenChooser chooser(kMath, 3);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {-infinity, 0.0f, -infinity};
  for (const float u : {0.0f, 0.5f, 1.0f - 0x1p-24f}) {
    EXPECT_EQ(chooser.choose(logits, {}, u).token, 1);
  }
  EXPECT_EQ(chooser.choose(logits, {.top_k = 2}, 0.9f).logprob, 0.0f);
}

TEST(TokenChooser, LogitsThatAreNotFiniteGiveNoToken) {
  TokenChooser chooser(kMath, 3);
  EXPECT_EQ(chooser.choose(std::vector<float>{0.0f, std::nanf(""), 1.0f}, {}, 0.5f).token, -1);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(chooser.choose(std::vector<float>{0.0f, infinity, 1.0f}, {}, 0.5f).token, -1);
}

TEST(TokenChooser, PenaltiesComeBeforeEverythingAndLeaveTheRawLawAlone) {
  TokenChooser chooser(kMath, 3);
  const std::vector<float> logits = {2.0f, 1.5f, -1.0f};
  TokenHistory history;
  history.add_reply(0);
  const Law law{.temperature = 0.5f, .top_k = 2, .penalties = {.presence = 1.0f}};
  // Penalised 1, 1.5, -1; tempered 2, 3; of the two kept the first has 1 / (1 + e).
  const Choice choice = chooser.choose(logits, law, 0.1f, &history);
  EXPECT_EQ(choice.token, 0);
  EXPECT_EQ(choice.kept, 2);
  EXPECT_NEAR(choice.logprob, -std::log(1.0 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(choice.raw_logprob, 2.0f - kMath.stats(logits.data(), 3).lse);
  const Law greedy{.temperature = 0.0f, .penalties = {.presence = 1.0f}};
  EXPECT_EQ(chooser.choose(logits, greedy, 0.0f, &history).token, 1);
}

TEST(TokenChooser, FrequenciesFollowTheLaw) {
  const std::vector<double> law = {0.05, 0.25, 0.1, 0.6};
  const auto logits = logits_from(law);
  TokenChooser chooser(kMath, 4);
  std::vector<int> counts(4);
  constexpr int kDraws = 20000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(chooser.choose(logits, {}, token_uniform(11, 0, i)).token)];
  }
  for (size_t i = 0; i < law.size(); ++i) {
    const double deviation = std::sqrt(law[i] * (1.0 - law[i]) / kDraws);
    EXPECT_NEAR(counts[i] / static_cast<double>(kDraws), law[i], 4.0 * deviation);
  }
}

TEST(ChooseByCdf, AgreesWithAPlainCumulativeSumOverManySegments) {
  // Powers of two add exactly in every order, so both ways must agree everywhere.
  std::vector<float> e(300, 0x1p-10f);
  e[7] = 0.0f;
  e[299] = 0.25f;
  const float total = segmented_sum(e);
  for (int step = 0; step < 1000; ++step) {
    const float u = static_cast<float>(step) / 1000.0f;
    float sum = 0.0f;
    int32_t expected = 0;
    for (; expected < 300; ++expected) {
      sum += e[static_cast<size_t>(expected)];
      if (u * total < sum) break;
    }
    EXPECT_EQ(choose_by_cdf(e, u), expected) << "u " << u;
  }
}

TEST(ChooseByCdf, NeverEntersAnEmptySegment) {
  for (const size_t size : {1u, 15u, 16u, 17u, 127u, 128u, 129u, 1000u}) {
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      std::vector<float> e(size, 0.0f);
      e[place] = 1e-30f;
      for (const float u : {0.0f, 0.5f, 1.0f - 0x1p-24f}) {
        EXPECT_EQ(choose_by_cdf(e, u), static_cast<int32_t>(place));
      }
    }
  }
}

TEST(TokenUniform, DependsOnSeedSampleAndTokenIndex) {
  std::set<float> values;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 40}) {
    for (const uint32_t sample : {0u, 1u}) {
      for (const uint32_t token : {0u, 1u, 2u}) {
        const float u = token_uniform(seed, sample, token);
        EXPECT_GE(u, 0.0f);
        EXPECT_LT(u, 1.0f);
        values.insert(u);
      }
    }
  }
  EXPECT_EQ(values.size(), 18u);
}

TEST(DrawSeed, IsAFunctionOfRunSeedAndPlaceThatJsonKeeps) {
  EXPECT_EQ(draw_seed(7, 3), draw_seed(7, 3));
  EXPECT_NE(draw_seed(7, 3), draw_seed(7, 4));
  EXPECT_NE(draw_seed(7, 3), draw_seed(8, 3));
  for (int64_t place = 0; place < 100; ++place) EXPECT_LT(draw_seed(1, place), uint64_t{1} << 53);
}

}  // namespace
}  // namespace mainspring

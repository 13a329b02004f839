#include "mainspring/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

namespace mainspring {
namespace {

KeyedPermutation permutation(int64_t size, uint64_t seed = 7, uint32_t source = 0,
                             uint32_t epoch = 0) {
  return {size, seed, OrderPurpose::kEpoch, source, epoch};
}

std::vector<int64_t> all(const KeyedPermutation& order, int64_t size) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < size; ++i) out.push_back(order(i));
  return out;
}

TEST(KeyedPermutation, EveryPlaceIsHitOnceForSmallAndOddSizes) {
  for (const int64_t size : {1, 2, 3, 5, 63, 64, 65, 100, 255, 256, 257, 1000, 4097}) {
    std::vector<int64_t> places = all(permutation(size), size);
    std::sort(places.begin(), places.end());
    std::vector<int64_t> expected(size);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(places, expected) << size;
  }
}

TEST(KeyedPermutation, SeedSourceAndEpochEachChangeTheOrder) {
  const auto base = all(permutation(100), 100);
  EXPECT_NE(base, all(permutation(100, 8), 100));
  EXPECT_NE(base, all(permutation(100, 7, 1), 100));
  EXPECT_NE(base, all(permutation(100, 7, 0, 1), 100));
  EXPECT_EQ(base, all(permutation(100), 100));
}

TEST(KeyedPermutation, TheOrderIsTheSameOnEveryMachine) {
  // The first places of three permutations, as first computed; a change here changes every run's
  // data.
  const auto head = [](const KeyedPermutation& order) {
    return std::vector<int64_t>{order(0), order(1), order(2), order(3), order(4)};
  };
  EXPECT_EQ(head(permutation(10, 0)), (std::vector<int64_t>{4, 9, 8, 2, 3}));
  EXPECT_EQ(head(permutation(1000, 42)), (std::vector<int64_t>{620, 562, 956, 200, 118}));
  EXPECT_EQ(head(permutation(int64_t{1} << 40, 42, 3, 9)),
            (std::vector<int64_t>{154026168683, 331945690945, 721981791793, 1092693478976,
                                  436127095581}));
}

TEST(KeyedPermutation, PlacesAreSpreadEvenly) {
  // Mean of the first 1,000 of a million places: 499,999.5 with a deviation of 9,128; 5 deviations
  // allowed.
  const KeyedPermutation order = permutation(1000000);
  double sum = 0;
  for (int64_t i = 0; i < 1000; ++i) sum += static_cast<double>(order(i));
  EXPECT_NEAR(sum / 1000, 499999.5, 5 * 9128.0);
}

TEST(KeyedPermutation, OfThreePlacesAllSixOrdersOccur) {
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) seen.insert(all(permutation(3, seed), 3));
  EXPECT_EQ(seen.size(), 6u);
}

TEST(Apportion, LargestRemaindersWinAndTheSumIsExact) {
  EXPECT_EQ(apportion({1, 1, 1}, 10), (std::vector<int64_t>{4, 3, 3}));
  EXPECT_EQ(apportion({0.5, 0.25, 0.25}, 8), (std::vector<int64_t>{4, 2, 2}));
}

TEST(Apportion, ATinyWeightStillGetsOne) {
  EXPECT_EQ(apportion({1e9, 1}, 100), (std::vector<int64_t>{99, 1}));
}

TEST(SourceDraw, CountsOverACycleAreExact) {
  const SourceDraw draw({0.7, 0.2, 0.1}, 5);
  std::array<int64_t, 3> counts{};
  for (int64_t i = 0; i < SourceDraw::kCycle; ++i) ++counts[draw(SourceDraw::kCycle + i)];
  for (int s = 0; s < 3; ++s) EXPECT_EQ(counts[s], draw.count(s));
}

TEST(SourceDraw, EveryAlignedRunHasItsShareToWithinTwoSamples) {
  const SourceDraw draw({0.7, 0.2, 0.1}, 5);
  const double shares[] = {0.7, 0.2, 0.1};
  for (const uint64_t length : {64, 128, 1024}) {
    for (uint64_t run = 0; run < 8; ++run) {
      std::array<double, 3> counts{};
      for (uint64_t i = 0; i < length; ++i) ++counts[draw(run * length + i)];
      for (int s = 0; s < 3; ++s) {
        EXPECT_LE(std::abs(counts[s] - shares[s] * static_cast<double>(length)), 2.0)
            << length << " " << run;
      }
    }
  }
}

TEST(SourceDraw, TheOrderInsideARunDependsOnTheSeedAndTheCycle) {
  const auto head = [](const SourceDraw& draw, uint64_t from) {
    std::vector<int> out;
    for (uint64_t i = 0; i < 64; ++i) out.push_back(draw(from + i));
    return out;
  };
  const SourceDraw draw({1, 1}, 5);
  EXPECT_NE(head(draw, 0), head(SourceDraw({1, 1}, 6), 0));
  EXPECT_NE(head(draw, 0), head(draw, SourceDraw::kCycle));
}

}  // namespace
}  // namespace mainspring

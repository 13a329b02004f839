#include "mainspring/data/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mainspring {
namespace {

constexpr int64_t kCycle = SourceDraw::kCycle;

DataState state_of(std::vector<uint64_t> sources, MixtureHistory mixture) {
  DataState state;
  state.cursors.assign(sources.size(), 0);
  state.sources = std::move(sources);
  state.mixture = std::move(mixture);
  return state;
}

TEST(Mixture, ASampleIsDrawnByTheEntryThatHoldsIt) {
  const MixtureHistory history = {
      {0, {kCycle, 0}}, {100, {0, kCycle}}, {150, {kCycle / 2, kCycle / 2}}};
  const MixtureDraw draw(history, 7);
  const SourceDraw last({1, 1}, 7);
  for (uint64_t g = 0; g < 300; ++g) {
    const int expected = g < 100 ? 0 : g < 150 ? 1 : last(g);
    EXPECT_EQ(draw(g), expected) << g;
  }
}

TEST(Mixture, OfTwoEntriesAtOneSampleTheLaterCounts) {
  const MixtureHistory history = {{0, {kCycle, 0}}, {0, {0, kCycle}}};
  EXPECT_EQ(MixtureDraw(history, 7)(0), 1);
  EXPECT_EQ(mixture_at(history, 0).shares[1], kCycle);
}

TEST(Mixture, SharesGivenAsWeightsAreTheSameShares) {
  const SourceDraw draw({0.3, 0, 2.2, 1e-9}, 5);
  const std::vector<int64_t> shares = shares_of(draw, 4);
  EXPECT_EQ(shares[1], 0);
  EXPECT_EQ(shares[3], 1) << "a weight above 0 has one place at least";
  const SourceDraw again(std::vector<double>(shares.begin(), shares.end()), 5);
  EXPECT_EQ(shares_of(again, 4), shares);
  for (uint64_t g = 0; g < 1000; ++g) EXPECT_EQ(again(g), draw(g));
}

TEST(Mixture, ANewSourceStartsAtItsFirstRowBehindTheOthers) {
  DataState saved = state_of({1, 2}, {{0, {kCycle / 2, kCycle / 2}}});
  saved.next_sample = 40;
  saved.cursors = {25, 15};
  const DataState now = state_of({1, 2, 3}, {{0, {kCycle / 4, kCycle / 4, kCycle / 2}}});
  const auto next = continued(saved, now, {"a", "b", "c"});
  ASSERT_TRUE(next.ok()) << next.status().to_string();
  EXPECT_EQ(next->cursors, (std::vector<int64_t>{25, 15, 0}));
  const MixtureHistory expected = {{0, {kCycle / 2, kCycle / 2}},
                                   {40, {kCycle / 4, kCycle / 4, kCycle / 2}}};
  EXPECT_EQ(next->mixture, expected);
}

TEST(Mixture, AHistoryThatIsNoneIsRefused) {
  EXPECT_TRUE(check_mixture(state_of({1, 2}, {{0, {kCycle}}, {9, {0, kCycle}}})).ok());
  for (const MixtureHistory& bad :
       {MixtureHistory{{1, {kCycle}}}, MixtureHistory{{0, {kCycle - 1}}},
        MixtureHistory{{0, {-1, kCycle + 1}}},
        MixtureHistory{{0, {kCycle}}, {9, {kCycle}}, {8, {kCycle}}},
        MixtureHistory{{0, {0, 0, kCycle}}}}) {
    EXPECT_EQ(check_mixture(state_of({1, 2}, bad)).code(), StatusCode::kInvalidArgument);
  }
}

TEST(Mixture, ItsTextNamesEachSourcesShare) {
  EXPECT_EQ(mixture_text({0, {3 * kCycle / 4, kCycle / 4}}, {"a.jsonl", "b.jsonl"}),
            "a.jsonl 75.0 %, b.jsonl 25.0 %");
}

}  // namespace
}  // namespace mainspring

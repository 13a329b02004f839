#include "mainspring/exec/cpu/arena_plan.h"

#include <gtest/gtest.h>

namespace mainspring::cpu {
namespace {

void expect_no_overlap(const std::vector<Lifetime>& lives, const ArenaPlan& plan) {
  for (size_t i = 0; i < lives.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.total_bytes);
    for (size_t j = i + 1; j < lives.size(); ++j) {
      const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
      const bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + lives[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
}

TEST(ArenaPlan, ValuesThatNeverMeetShareMemory) {
  const std::vector<Lifetime> lives{{100, 0, 1}, {100, 2, 3}, {50, 1, 2}};
  const ArenaPlan plan = plan_arena(lives);
  expect_no_overlap(lives, plan);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.total_bytes, 128 + 64);
}

TEST(ArenaPlan, ManyOverlappingLivesNeverOverlapInMemory) {
  std::vector<Lifetime> lives;
  uint32_t state = 1;
  for (int i = 0; i < 200; ++i) {
    state = state * 1664525u + 1013904223u;
    const int32_t first = static_cast<int32_t>(state >> 8) % 90;
    lives.push_back({static_cast<int64_t>((state >> 16) % 5000), first,
                     first + static_cast<int32_t>(state % 10)});
  }
  expect_no_overlap(lives, plan_arena(lives));
}

TEST(ArenaPlan, NothingNeedsNothing) { EXPECT_EQ(plan_arena({}).total_bytes, 0); }

}  // namespace
}  // namespace mainspring::cpu

#include "mainspring/env/env_random.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace mainspring {
namespace {

TEST(EnvRandom, SameTaskDrawsTheSameAndOthersDrawApart) {
  EnvRandom a("sum", 7, 3);
  EnvRandom b("sum", 7, 3);
  EnvRandom other_seed("sum", 8, 3);
  EnvRandom other_index("sum", 7, 4);
  EnvRandom other_name("sun", 7, 3);
  for (int i = 0; i < 9; ++i) {  // across two borders of a block of four
    const uint32_t bits = a.next();
    EXPECT_EQ(bits, b.next());
    EXPECT_NE(bits, other_seed.next());
    EXPECT_NE(bits, other_index.next());
    EXPECT_NE(bits, other_name.next());
  }
}

// Committed so that a change of the draws, which would change every run, is seen.
TEST(EnvRandom, DrawsAreThoseOfEveryMachine) {
  EnvRandom random("max", 1, 2);
  // Philox4x32-10 of counter (0, FNV-1a of "max", 2, 0) and key (1, 0), times 1000 / 2^32.
  EXPECT_EQ(random.below(1000), 953);
  EXPECT_EQ(random.below(1000), 10);
  EXPECT_EQ(random.below(1000), 919);
}

TEST(EnvRandom, BelowIsUniform) {
  EnvRandom random("uniform", 1, 0);
  std::map<int64_t, int> counts;
  for (int i = 0; i < 7000; ++i) ++counts[random.below(7)];
  ASSERT_EQ(counts.size(), 7u);
  // Binomial(7000, 1/7): sigma 29; six of them.
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 1000, 176) << value;
}

TEST(EnvRandom, DistinctValuesAreDistinctAndInRange) {
  EnvRandom random("distinct", 1, 0);
  const std::vector<int64_t> all = random.distinct(6, -2, 3);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()), (std::set<int64_t>{-2, -1, 0, 1, 2, 3}));
  EXPECT_TRUE(random.distinct(0, 5, 5).empty());
}

TEST(EnvRandom, OrderVisitsEachTaskOncePerRound) {
  for (const int64_t size : {1, 2, 63, 64, 65, 100, 1000}) {
    for (const uint64_t round : {uint64_t{0}, uint64_t{5}}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < size; ++i) {
        const int64_t task = task_in_order("tasks", size, 9, round * size + i);
        ASSERT_GE(task, 0);
        ASSERT_LT(task, size);
        seen.insert(task);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
    }
  }
}

TEST(EnvRandom, RoundsAndSeedsHaveOrdersOfTheirOwn) {
  int same_round = 0;
  int same_seed = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const int64_t task = task_in_order("tasks", 100, 9, i);
    same_round += task == task_in_order("tasks", 100, 9, 100 + i) ? 1 : 0;
    same_seed += task == task_in_order("tasks", 100, 10, i) ? 1 : 0;
  }
  // One of 100 on average by chance.
  EXPECT_LT(same_round, 10);
  EXPECT_LT(same_seed, 10);
}

}  // namespace
}  // namespace mainspring

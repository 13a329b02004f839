#include "mainspring/base/nearest.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(NearestTest, DistanceCountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);  // k->s, e->i, +g
}

TEST(NearestTest, NearestNameIsTheOneMeant) {
  const std::vector<std::string> known{"learning_rate", "batch_size", "steps"};
  EXPECT_EQ(nearest_name("batchsize", known), "batch_size");
  EXPECT_EQ(nearest_name("step", known), "steps");
}

TEST(NearestTest, FirstOfSeveralEquallyNearNamesWins) {
  EXPECT_EQ(nearest_name("x", {"a", "b"}), "a");
}

TEST(NearestTest, NothingKnownGivesAnEmptyName) { EXPECT_EQ(nearest_name("x", {}), ""); }

}  // namespace
}  // namespace mainspring

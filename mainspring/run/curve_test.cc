#include "mainspring/run/curve.h"

#include <gtest/gtest.h>

#include <limits>

namespace mainspring {
namespace {

TEST(Curve, FewPointsAreKeptAsTheyAre) {
  Curve curve(4);
  curve.add(1, 3.0);
  curve.add(2, 2.5);
  const auto points = curve.points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].step, 2);
  EXPECT_EQ(points[1].mean, 2.5);
  EXPECT_EQ(curve.stride(), 1);
}

TEST(Curve, NeighboursMergeWhenTheLimitIsReachedAndASpikeStaysInMax) {
  Curve curve(4);
  for (int step = 1; step <= 4; ++step) curve.add(step, step == 2 ? 100.0 : 1.0);
  const auto points = curve.points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].step, 2);
  EXPECT_EQ(points[0].mean, 50.5);
  EXPECT_EQ(points[0].max, 100.0);
  EXPECT_EQ(points[0].min, 1.0);
  EXPECT_EQ(curve.stride(), 2);
}

TEST(Curve, AnOddNumberOfPointsLosesNoneWhenMerging) {
  Curve curve(3);
  for (int step = 1; step <= 3; ++step) curve.add(step, step);
  const auto points = curve.points();  // (1+2)/2, then 3 waiting for its partner
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].mean, 1.5);
  EXPECT_EQ(points[1].mean, 3.0);
}

TEST(Curve, AMillionStepsStayWithinTheLimitAndKeepTheirMean) {
  Curve curve(256);
  for (int64_t step = 1; step <= 1000000; ++step) curve.add(step, 2.0);
  EXPECT_LE(curve.points().size(), 257u);
  for (const auto& point : curve.points()) EXPECT_EQ(point.mean, 2.0);
  EXPECT_EQ(curve.points().back().step, 1000000);
}

TEST(Curve, ValuesThatAreNotFiniteAreLeftOut) {
  Curve curve(8);
  curve.add(1, std::numeric_limits<double>::quiet_NaN());
  curve.add(2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(curve.points().empty());
}

}  // namespace
}  // namespace mainspring

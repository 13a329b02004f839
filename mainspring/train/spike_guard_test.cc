#include "mainspring/train/spike_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mainspring {
namespace {

SpikeGuard full() {
  SpikeGuard guard(10, 5);
  for (double loss : {2.0, 2.1, 1.9, 2.05, 2.2}) guard.note(loss);
  return guard;
}

TEST(SpikeGuard, TheLimitIsTheMedianAndItsMedianDistance) {
  // Median 2.05; distances 0.05, 0.05, 0.15, 0, 0.15: median 0.05.
  const SpikeGuard guard = full();
  EXPECT_NEAR(guard.limit(), 2.05 + 10 * 0.05, 1e-12);
  EXPECT_FALSE(guard.is_spike(2.5));
  EXPECT_TRUE(guard.is_spike(2.6));
  EXPECT_TRUE(guard.is_spike(std::numeric_limits<double>::quiet_NaN()));
}

TEST(SpikeGuard, EqualLossesLeaveRoomForOnePercent) {
  SpikeGuard guard(10, 3);
  for (int i = 0; i < 3; ++i) guard.note(2.0);
  EXPECT_NEAR(guard.limit(), 2.2, 1e-12);
}

TEST(SpikeGuard, NothingIsASpikeBeforeTheWindowIsFullOrWithoutAFactor) {
  SpikeGuard guard(10, 5);
  for (int i = 0; i < 4; ++i) guard.note(1.0);
  EXPECT_FALSE(guard.is_spike(1e9));
  SpikeGuard off(0, 1);
  off.note(1.0);
  EXPECT_FALSE(off.is_spike(1e9));
}

TEST(SpikeGuard, StateIsExactAndOldLossesAreForgotten) {
  SpikeGuard guard = full();
  SpikeGuard other(10, 5);
  ASSERT_TRUE(other.restore(guard.state()).ok());
  EXPECT_EQ(other.limit(), guard.limit());
  for (int i = 0; i < 5; ++i) guard.note(0.1);
  EXPECT_NEAR(guard.limit(), 0.11, 1e-12);
  EXPECT_EQ(other.restore("12 x").code(), StatusCode::kDataLoss);
  EXPECT_TRUE(other.restore("").ok());
}

}  // namespace
}  // namespace mainspring

#include "mainspring/base/f16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace mainspring {
namespace {

/// The definition, in f64: sign, 5 exponent bits, 10 mantissa bits.
double half_value(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryFiniteHalfWidensExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if (((bits >> 10) & 31) == 31) continue;
    ASSERT_EQ(static_cast<double>(f16_to_f32(static_cast<uint16_t>(bits))),
              half_value(static_cast<uint16_t>(bits)));
  }
}

TEST(F16, EveryHalfButNansReadsBackFromF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if (((bits >> 10) & 31) == 31 && (bits & 1023) != 0) continue;
    ASSERT_EQ(f32_to_f16(f16_to_f32(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(F16, RoundsToNearestEvenBetweenEveryPairOfNeighbours) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {  // positive finite, each with its successor
    const double low = half_value(bits);
    const double high = half_value(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2.0);
    const uint16_t even = bits % 2 == 0 ? bits : static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(f32_to_f16(middle), even);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), bits + 1);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000);
  }
}

TEST(F16, OverflowsToInfinityAtHalfAUnitAboveTheLargest) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
  EXPECT_TRUE(std::isnan(f16_to_f32(0x7c01)));
}

}  // namespace
}  // namespace mainspring

#include "mainspring/base/bf16.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

uint16_t rounded(uint32_t bits) { return to_bf16(std::bit_cast<float>(bits)).bits; }

TEST(Bf16Test, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);  // 1
  EXPECT_EQ(rounded(0x3f807fff), 0x3f80);
  EXPECT_EQ(rounded(0x3f808000), 0x3f80);  // half way, even below
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0x3f818000), 0x3f82);  // half way, even above
  EXPECT_EQ(rounded(0xbf818000), 0xbf82);
}

TEST(Bf16Test, TheLargestFloatsRoundToInfinity) {
  EXPECT_EQ(rounded(0x7f7f7fff), 0x7f7f);
  EXPECT_EQ(rounded(0x7f7f8000), 0x7f80);
  EXPECT_EQ(rounded(0xff7fffff), 0xff80);
  EXPECT_EQ(rounded(0x7f800000), 0x7f80);
}

TEST(Bf16Test, DenormalsBecomeZerosOfTheirSign) {
  EXPECT_EQ(rounded(0x00000001), 0x0000);
  EXPECT_EQ(rounded(0x007fffff), 0x0000);
  EXPECT_EQ(rounded(0x807fffff), 0x8000);
  EXPECT_EQ(rounded(0x00800000), 0x0080);
}

TEST(Bf16Test, NansAreQuietedAndKeepTheirSign) {
  EXPECT_EQ(rounded(0x7f800001), 0x7fc0);
  EXPECT_EQ(rounded(0xff800001), 0xffc0);
  EXPECT_EQ(rounded(0x7fa50000), 0x7fe5);
}

TEST(Bf16Test, EveryBf16ThatIsNoDenormalOrNanRoundsToItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 x{static_cast<uint16_t>(bits)};
    const uint32_t magnitude = bits & 0x7fffu;
    if ((magnitude != 0 && magnitude < 0x80) || magnitude > 0x7f80) continue;
    ASSERT_EQ(to_bf16(to_f32(x)), x) << bits;
  }
}

}  // namespace
}  // namespace mainspring

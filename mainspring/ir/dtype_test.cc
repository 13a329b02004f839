#include "mainspring/ir/dtype.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(DTypeTest, PlainTypesHaveBlocksOfOneValue) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    EXPECT_EQ(dtype_block_elements(dtype), 1) << dtype_name(dtype);
    EXPECT_FALSE(is_quantised(dtype)) << dtype_name(dtype);
  }
  EXPECT_EQ(dtype_bytes(DType::kF32, 3), 12);
  EXPECT_EQ(dtype_bytes(DType::kBF16, 3), 6);
  EXPECT_EQ(dtype_bytes(DType::kF16, 0), 0);
  EXPECT_EQ(dtype_bytes(DType::kU8, 3), 3);
}

TEST(DTypeTest, QuantisedTypesCountWholeBlocks) {
  EXPECT_EQ(dtype_bytes(DType::kQ4_0, 64), 36);    // 2 blocks of 2 + 16
  EXPECT_EQ(dtype_bytes(DType::kQ4_1, 64), 40);    // 2 blocks of 4 + 16
  EXPECT_EQ(dtype_bytes(DType::kQ5_0, 64), 44);    // 2 blocks of 2 + 4 + 16
  EXPECT_EQ(dtype_bytes(DType::kQ5_1, 64), 48);    // 2 blocks of 4 + 4 + 16
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 512), 288);  // 2 blocks of 4 + 12 + 128
  EXPECT_EQ(dtype_bytes(DType::kQ5_K, 512), 352);  // 2 blocks of 4 + 12 + 32 + 128
  EXPECT_EQ(dtype_bytes(DType::kQ6_K, 512), 420);  // 2 blocks of 128 + 64 + 16 + 2
  EXPECT_EQ(dtype_bytes(DType::kQ8_0, 64), 68);    // 2 blocks of 2 + 32
  EXPECT_EQ(dtype_bytes(DType::kNF4, 64), 33);     // 1 block of 32 + 1
  EXPECT_TRUE(is_quantised(DType::kQ4_0));
  EXPECT_TRUE(is_quantised(DType::kNF4));
}

TEST(DTypeTest, Int8IsQuantisedThoughItsBlocksAreSingleValues) {
  EXPECT_TRUE(is_quantised(DType::kInt8));
  EXPECT_EQ(dtype_bytes(DType::kInt8, 13), 13);
}

TEST(DTypeTest, NamesAreThoseOfTheHeader) {
  EXPECT_EQ(dtype_name(DType::kF32), "f32");
  EXPECT_EQ(dtype_name(DType::kBF16), "bf16");
  EXPECT_EQ(dtype_name(DType::kNF4), "nf4");
  EXPECT_EQ(dtype_name(DType::kInt8), "int8");
}

TEST(DTypeDeathTest, PartialBlocksAreOurBug) {
  EXPECT_DEATH(static_cast<void>(dtype_bytes(DType::kQ8_0, 31)), "whole blocks");
}

}  // namespace
}  // namespace mainspring

#include "mainspring/weights/dequantise.h"

#include <gtest/gtest.h>

#include <limits>

namespace mainspring {
namespace {

StoredTensor stored(DType dtype, std::vector<int64_t> shape, const std::vector<uint8_t>& bytes) {
  StoredTensor tensor;
  tensor.name = "w";
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.data = bytes.data();
  tensor.size_bytes = static_cast<int64_t>(bytes.size());
  return tensor;
}

TEST(Dequantise, Q4_0SubtractsEightAndScales) {
  std::vector<uint8_t> block(18, 0x88);
  block[0] = 0x00;
  block[1] = 0x38;   // 0.5
  block[2] = 0xf0;   // value 0: code 0, value 16: code 15
  block[17] = 0x79;  // value 15: code 9, value 31: code 7
  const std::vector<float> got = read_f32(stored(DType::kQ4_0, {1, 32}, block));
  EXPECT_EQ(got[0], -4.0f);   // (0 - 8) * 0.5
  EXPECT_EQ(got[16], 3.5f);   // (15 - 8) * 0.5
  EXPECT_EQ(got[15], 0.5f);   // (9 - 8) * 0.5
  EXPECT_EQ(got[31], -0.5f);  // (7 - 8) * 0.5
  EXPECT_EQ(got[1], 0.0f);    // code 8
}

TEST(Dequantise, Q4_1ScalesAndAddsTheMinimum) {
  std::vector<uint8_t> block(20, 0x00);
  block[1] = 0x3c;  // d = 1
  block[3] = 0xc0;  // m = -2
  block[4] = 0x52;  // value 0: code 2, value 16: code 5
  const std::vector<float> got = read_f32(stored(DType::kQ4_1, {1, 32}, block));
  EXPECT_EQ(got[0], 0.0f);   // 2 * 1 - 2
  EXPECT_EQ(got[16], 3.0f);  // 5 * 1 - 2
  EXPECT_EQ(got[31], -2.0f);
}

TEST(Dequantise, Q8_0RoundsToBf16) {
  std::vector<uint8_t> block(34, 0x00);
  block[0] = 0x01;
  block[1] = 0x3c;  // d = 1 + 2^-10
  block[2] = 0x7f;  // 127 * (1 + 2^-10) = 127.124...: bf16 keeps 8 bits
  block[3] = 0xff;  // -1 * (1 + 2^-10)
  const std::vector<float> got = read_f32(stored(DType::kQ8_0, {1, 32}, block));
  EXPECT_EQ(got[0], 127.0f);
  EXPECT_EQ(got[1], -1.0f);
  EXPECT_EQ(got[2], 0.0f);
}

TEST(Dequantise, ReadsOneRowOfSeveral) {
  const StoredTensor tensor = make_tensor("w", {3, 2}, DType::kBF16, {1, 2, 3, 4, 5, 6});
  float row[2];
  read_row_f32(tensor, 2, row);
  EXPECT_EQ(row[0], 5.0f);
  EXPECT_EQ(row[1], 6.0f);
}

TEST(Dequantise, VectorsScalarsAndEmptyTensorsHaveRowsToo) {
  EXPECT_EQ(read_f32(make_tensor("w", {3}, DType::kF32, {1, 2, 3})), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read_f32(make_tensor("w", {}, DType::kF32, {7})), (std::vector<float>{7}));
  EXPECT_TRUE(read_f32(make_tensor("w", {0, 3}, DType::kF32, {})).empty());
  EXPECT_TRUE(read_f32(make_tensor("w", {3, 0}, DType::kF32, {})).empty());
}

TEST(Dequantise, ToDtypeRoundsOrSharesWhatIsThere) {
  const StoredTensor wide = make_tensor("w", {1, 3}, DType::kF32, {1.0f, 1.00390625f, -0.1f});
  EXPECT_EQ(to_dtype(wide, DType::kF32).data, wide.data);
  const StoredTensor narrow = to_dtype(wide, DType::kBF16);
  EXPECT_EQ(narrow.size_bytes, 6);
  EXPECT_EQ(read_f32(narrow), (std::vector<float>{1.0f, 1.0f, -0.10009765625f}));  // ties to even
  EXPECT_EQ(read_f32(to_dtype(narrow, DType::kF32)), read_f32(narrow));
}

TEST(Dequantise, ToHalvesRoundsToEvenAndOverflowsToInfinity) {
  const StoredTensor wide =
      make_tensor("w", {4}, DType::kF32, {1.0f, 1.00048828125f, -0x1p-24f, 1e6f});
  const StoredTensor halves = to_dtype(wide, DType::kF16);
  EXPECT_EQ(halves.size_bytes, 8);
  const std::vector<float> got = read_f32(halves);
  EXPECT_EQ(got[1], 1.0f);  // 1 + 2^-11: a tie
  EXPECT_EQ(got[2], -0x1p-24f);
  EXPECT_EQ(got[3], std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace mainspring

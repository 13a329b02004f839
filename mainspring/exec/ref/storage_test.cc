#include "mainspring/exec/ref/storage.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "mainspring/base/bf16.h"

namespace mainspring::ref {
namespace {

constexpr uint16_t kHalfOne = 0x3c00, kHalfTwo = 0x4000;

std::vector<uint8_t> block(std::initializer_list<uint16_t> halves, std::vector<uint8_t> codes) {
  std::vector<uint8_t> bytes;
  for (uint16_t half : halves) {
    bytes.push_back(static_cast<uint8_t>(half));
    bytes.push_back(static_cast<uint8_t>(half >> 8));
  }
  bytes.insert(bytes.end(), codes.begin(), codes.end());
  return bytes;
}

TEST(RefStorageTest, HalvesCoverDenormalsAndInfinities) {
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x7c00, 0xfc00};
  const auto values = decode(DType::kF16, halves, nullptr, 7);
  EXPECT_EQ(values,
            (std::vector<double>{1, -2, 0x1p-24, 1023 * 0x1p-24, 65504, HUGE_VAL, -HUGE_VAL}));
}

TEST(RefStorageTest, Q4_0IsScaleTimesCodeMinusEight) {
  std::vector<uint8_t> codes(16, 0x88);
  codes[0] = 0xf0;  // value 0: code 0, value 16: code 15
  const auto values = decode(DType::kQ4_0, block({kHalfTwo}, codes).data(), nullptr, 32);
  EXPECT_EQ(values[0], -16);
  EXPECT_EQ(values[16], 14);
  EXPECT_EQ(values[1], 0);
}

TEST(RefStorageTest, Q4_1AddsTheMinimum) {
  std::vector<uint8_t> codes(16, 0);
  codes[15] = 0x3f;  // value 15: code 15, value 31: code 3
  const auto values = decode(DType::kQ4_1, block({kHalfTwo, kHalfOne}, codes).data(), nullptr, 32);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[15], 31);
  EXPECT_EQ(values[31], 7);
}

TEST(RefStorageTest, Q8_0IsScaleTimesSignedCode) {
  std::vector<uint8_t> codes(32, 0);
  codes[3] = 0xff;
  codes[31] = 127;
  const auto values = decode(DType::kQ8_0, block({kHalfTwo}, codes).data(), nullptr, 32);
  EXPECT_EQ(values[3], -2);
  EXPECT_EQ(values[31], 254);
}

TEST(RefStorageTest, Nf4ScalesLevelsByTheSecondQuantisation) {
  std::vector<uint8_t> codes(33, 0x77);
  codes[0] = 0xf0;  // value 0: level 15 = 1, value 1: level 0 = -1
  codes[32] = 255;  // scale = 255 / 255 * 2 + 0.5
  const float aux[] = {0.5f, 2.0f};
  const auto values = decode(DType::kNF4, codes.data(), aux, 64);
  EXPECT_EQ(values[0], 2.5);
  EXPECT_EQ(values[1], -2.5);
  EXPECT_EQ(values[2], 0);
}

TEST(RefStorageTest, Int8ScalesCodesByRow) {
  const int8_t codes[] = {-128, 127, 3, 5, 0, -1};
  const float scales[] = {0.5f, 0.25f};
  EXPECT_EQ(decode(DType::kInt8, codes, scales, 6, 3),
            (std::vector<double>{-64, 63.5, 1.5, 1.25, 0, -0.25}));
}

TEST(RefStorageTest, QuantisedValuesAreBf16) {
  std::vector<uint8_t> codes(32, 0);
  codes[0] = 127;
  const auto values =
      decode(DType::kQ8_0, block({0x3c01}, codes).data(), nullptr, 32);  // 1 + 2^-10
  EXPECT_EQ(values[0], 127);  // 127.124 has more than 8 bits
}

TEST(RefStorageTest, EncodeRoundsToTheDtype) {
  bf16 narrow[2];
  encode(DType::kBF16, {1 + 0x1p-9, -3}, narrow);
  EXPECT_EQ(to_f32(narrow[0]), 1.0f);
  EXPECT_EQ(to_f32(narrow[1]), -3.0f);
  float wide[1];
  encode(DType::kF32, {1 + 0x1p-30}, wide);
  EXPECT_EQ(wide[0], 1.0f);
}

}  // namespace
}  // namespace mainspring::ref

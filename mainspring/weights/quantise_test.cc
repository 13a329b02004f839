#include "mainspring/weights/quantise.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mainspring/weights/dequantise.h"
#include "mainspring/weights/nf4.h"

namespace mainspring {
namespace {

/// 64 values: ((37 i mod 64) - 31) / 16.
std::vector<float> scattered() {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(static_cast<float>((i * 37) % 64 - 31) / 16.0f);
  return values;
}

std::string hex(const StoredTensor& tensor) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  for (int64_t i = 0; i < tensor.size_bytes; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

StoredTensor quantised(const std::vector<float>& values, std::vector<int64_t> shape, DType dtype) {
  return quantise(make_tensor("w", std::move(shape), DType::kF32, values), dtype).value();
}

// The expected bytes are those of gguf 0.19.0 (gguf.quants.quantize), llama.cpp's Python package.
TEST(Quantise, Q4_0GivesTheReferenceBytes) {
  EXPECT_EQ(hex(quantised(scattered(), {1, 64}, DType::kQ4_0)),
            "00b4cf379d047be248bf269df36ad148ae15c0b348bf158cf35ac037ae047be259cf269d");
}

TEST(Quantise, Q4_1GivesTheReferenceBytes) {
  EXPECT_EQ(hex(quantised(scattered(), {1, 64}, DType::kQ4_1)),
            "3334c0bf40d962fb952eb751da730c953ec851ea113480bfc851ea731da63fc862fb841db740d962");
}

TEST(Quantise, Q8_0GivesTheReferenceBytes) {
  EXPECT_EQ(hex(quantised(scattered(), {1, 64}, DType::kQ8_0)),
            "08248518ad40d467fc9124b94be073089d30c457ec7f14a93cd063f88d20b547dc6fd02304952dbe56e77f"
            "10a239cb62f4851dae"
            "46d76f009129ba52e37b0c9e35c75ef0");
}

TEST(Quantise, ABlockOfZerosStaysZero) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kNF4, DType::kInt8}) {
    for (const float value : read_f32(quantised(std::vector<float>(64, 0.0f), {1, 64}, dtype)))
      EXPECT_EQ(value, 0.0f);
  }
}

TEST(Quantise, Nf4KeepsLevelsOfABlockWhoseScaleIsTheOffset) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(kNf4Levels[i % 16] * 2.0f);
  const StoredTensor tensor = quantised(values, {1, 64}, DType::kNF4);
  ASSERT_EQ(tensor.aux.size(), 2u);  // an offset and one scale for up to 256 blocks
  EXPECT_EQ(tensor.aux[0], 2.0f);    // the only block's largest magnitude
  EXPECT_EQ(tensor.aux[1], 0.0f);
  EXPECT_EQ(tensor.size_bytes, 33);
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  EXPECT_EQ(bytes[0], 0x01);  // code 0 in the high half, code 1 in the low one
  EXPECT_EQ(bytes[7], 0xef);
  EXPECT_EQ(read_f32(tensor), read_f32(make_tensor("w", {1, 64}, DType::kBF16, values)));
}

TEST(Quantise, Nf4ErrorIsWithinHalfAStepOfTheBlocksScale) {
  std::vector<float> values;
  for (int i = 0; i < 300 * 64; ++i) {  // 300 blocks: two second-level scales
    const float scale = 1.0f + static_cast<float>(i / 64 % 7);
    values.push_back(scale * (static_cast<float>((i * 7919) % 2001) / 1000.0f - 1.0f));
  }
  const StoredTensor tensor = quantised(values, {300, 64}, DType::kNF4);
  ASSERT_EQ(tensor.aux.size(), 3u);
  const std::vector<float> got = read_f32(tensor);
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = 1.0f + static_cast<float>(i / 64 % 7);
    // The widest gap of levels is 0.304 (0.152 each way); the scale's own code adds up to 6 / 255 /
    // 2, bf16 2^-8.
    ASSERT_NEAR(got[i], values[i], 0.152f * scale + 0.012f + scale / 256.0f) << i;
  }
}

TEST(Quantise, Int8RoundsTiesToEvenAndScalesEachRowByItsLargest) {
  // Row 0: scale 1. Row 1: scale 2. Rows of 7 are no multiple of anything.
  const StoredTensor tensor =
      quantised({127, 0.5f, 1.5f, -0.5f, -2.5f, 100.4f, -127, -254, 1, 3, 0, 5, 252.9f, 254},
                {2, 7}, DType::kInt8);
  EXPECT_EQ(tensor.aux, (std::vector<float>{1, 2}));
  ASSERT_EQ(tensor.size_bytes, 14);
  const auto* codes = static_cast<const int8_t*>(tensor.data);
  EXPECT_EQ(std::vector<int>(codes, codes + 14),
            (std::vector<int>{127, 0, 2, 0, -2, 100, -127, -127, 0, 2, 0, 2, 126, 127}));
  EXPECT_EQ(read_f32(tensor), (std::vector<float>{127, 0, 2, 0, -2, 100, -127,  //
                                                  -254, 0, 4, 0, 4, 252, 254}));
}

TEST(Quantise, Int8ErrorIsWithinHalfAStepOfTheRowsScale) {
  std::vector<float> values;
  for (int i = 0; i < 5 * 333; ++i) {
    const float size = 0.01f * static_cast<float>(1 + i / 333);
    values.push_back(size * (static_cast<float>((i * 7919) % 2001) / 1000.0f - 1.0f));
  }
  const StoredTensor tensor = quantised(values, {5, 333}, DType::kInt8);
  const std::vector<float> got = read_f32(tensor);
  for (size_t i = 0; i < values.size(); ++i) {  // half a step, then bf16's half unit of 2^-8
    const float scale = tensor.aux[i / 333];
    ASSERT_NEAR(got[i], values[i], 0.5001f * scale + std::fabs(values[i]) / 256.0f) << i;
  }
}

TEST(Quantise, Int8RowsTooSmallForANormalScaleAreZeros) {
  const StoredTensor tensor = quantised({1e-37f, -1e-37f}, {1, 2}, DType::kInt8);
  EXPECT_EQ(tensor.aux, std::vector<float>{0.0f});
  EXPECT_EQ(read_f32(tensor), (std::vector<float>{0, 0}));
}

TEST(Quantise, RefusesRowsThatAreNoWholeNumberOfBlocks) {
  const Status status =
      quantise(make_tensor("blk", {2, 48}, DType::kF32, std::vector<float>(96)), DType::kQ8_0)
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'blk': rows of 48"), std::string::npos);
}

TEST(Quantise, NamesAValueThatIsNotFinite) {
  std::vector<float> values(128, 1.0f);
  values[70] = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kNF4, DType::kInt8}) {
    const Status status = quantise(make_tensor("w", {2, 64}, DType::kF32, values), dtype).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("row 1, column 6"), std::string::npos) << status.message();
  }
}

TEST(Quantise, RefusesWhatIsQuantisedAlready) {
  const StoredTensor tensor = quantised(scattered(), {1, 64}, DType::kQ8_0);
  EXPECT_EQ(quantise(tensor, DType::kNF4).status().code(), StatusCode::kUnimplemented);
}

TEST(Quantise, BlocksOf256AreReadAndNotMade) {
  const Status status =
      quantise(make_tensor("w", {1, 256}, DType::kF32, std::vector<float>(256)), DType::kQ4_K)
          .status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("q4_k is read, not made"), std::string::npos);
}

TEST(Quantise, LinearsAreQuantisedAndTheRestIsLeftAlone) {
  TensorSet set;
  for (const std::string name : {"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight",
                                 "model.layers.0.self_attn.q_proj.bias"}) {
    set[name] = make_tensor(
        name, name.ends_with("bias") ? std::vector<int64_t>{64} : std::vector<int64_t>{1, 64},
        DType::kF32, scattered());
  }
  const TensorSet out = quantise_linears(set, DType::kNF4).value();
  EXPECT_EQ(out.at("model.embed_tokens.weight").dtype, DType::kF32);
  EXPECT_EQ(out.at("model.layers.0.mlp.up_proj.weight").dtype, DType::kNF4);
  EXPECT_EQ(out.at("model.layers.0.self_attn.q_proj.bias").dtype, DType::kF32);
}

}  // namespace
}  // namespace mainspring

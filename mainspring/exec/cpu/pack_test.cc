#include <gtest/gtest.h>

#include <bit>

#include "mainspring/exec/cpu/dequantise.h"
#include "mainspring/exec/cpu/linear_test_util.h"

namespace mainspring::cpu {
namespace {

uint16_t f16_bits(float x) {  // of normal values that f16 holds exactly
  const uint32_t u = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((u >> 16 & 0x8000u) | ((u >> 23 & 255u) - 112) << 10 |
                               (u >> 13 & 0x3ffu));
}

void push_f16(std::vector<uint8_t>& out, float x) {
  const uint16_t bits = f16_bits(x);
  out.push_back(static_cast<uint8_t>(bits));
  out.push_back(static_cast<uint8_t>(bits >> 8));
}

std::vector<float> values_of(const WeightView& weight, int64_t row) {
  std::vector<float> out(static_cast<size_t>(weight.in));
  // Every path that runs here; they agree.
  load_values(kernel_table(Isa::kScalar).linear->bf16, weight, row, 0, weight.in, out.data());
  for (const Isa isa : test_paths()) {
    std::vector<float> again(out.size());
    load_values(kernel_table(isa).linear->bf16, weight, row, 0, weight.in, again.data());
    EXPECT_EQ(again, out) << isa_name(isa);
  }
  return out;
}

TEST(DequantiseTest, Q40KeepsLowNibblesFirst) {
  std::vector<uint8_t> block;
  push_f16(block, 0.5f);
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<uint8_t>(j | (15 - j) << 4));
  const auto x = values_of({DType::kQ4_0, block.data(), 1, 32, nullptr}, 0);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(x[static_cast<size_t>(j)], 0.5f * static_cast<float>(j - 8));
    EXPECT_EQ(x[static_cast<size_t>(16 + j)], 0.5f * static_cast<float>(7 - j));
  }
}

TEST(DequantiseTest, Q41AddsItsMinimum) {
  std::vector<uint8_t> block;
  push_f16(block, 0.25f);
  push_f16(block, -3.0f);
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<uint8_t>(j | 2 << 4));
  const auto x = values_of({DType::kQ4_1, block.data(), 1, 32, nullptr}, 0);
  EXPECT_EQ(x[5], 5 * 0.25f - 3.0f);
  EXPECT_EQ(x[21], 2 * 0.25f - 3.0f);
}

TEST(DequantiseTest, Q80IsSigned) {
  std::vector<uint8_t> blocks;
  for (int row = 0; row < 2; ++row) {
    push_f16(blocks, row == 0 ? 1.0f : 0.125f);
    for (int j = 0; j < 32; ++j) blocks.push_back(static_cast<uint8_t>(j - 16));
  }
  const WeightView weight{DType::kQ8_0, blocks.data(), 2, 32, nullptr};
  EXPECT_EQ(values_of(weight, 0)[0], -16.0f);
  EXPECT_EQ(values_of(weight, 1)[31], 15 * 0.125f);
}

TEST(DequantiseTest, Nf4TakesScalesOfBlocksCountedOverTheWholeMatrix) {
  const int64_t in = 128, out = 200;  // 400 blocks: two second-level scales
  std::vector<uint8_t> data(static_cast<size_t>(dtype_bytes(DType::kNF4, out * in)), 0);
  const float aux[] = {0.5f, 2.0f, 8.0f};
  for (size_t block = 0; block < 400; ++block) {
    data[block * 33] = 0xf0;      // value 0: code 15 = 1; value 1: code 0 = -1
    data[block * 33 + 1] = 0x7f;  // value 2: code 7 = 0; value 3: 1
    data[block * 33 + 32] = static_cast<uint8_t>(block % 256);
  }
  const WeightView weight{DType::kNF4, data.data(), out, in, aux};
  const auto first = values_of(weight, 1);  // blocks 2 and 3
  EXPECT_EQ(first[0], 2.0f / 255.0f * 2.0f + 0.5f);
  EXPECT_EQ(first[1], -first[0]);
  EXPECT_EQ(first[2], 0.0f);
  EXPECT_EQ(first[64], 3.0f / 255.0f * 2.0f + 0.5f);
  const auto later = values_of(weight, 150);  // blocks 300 and 301: code 44, 45
  EXPECT_EQ(later[0], 44.0f / 255.0f * 8.0f + 0.5f);
  EXPECT_EQ(later[67], 45.0f / 255.0f * 8.0f + 0.5f);
}

TEST(DequantiseTest, Int8TakesTheScaleOfItsRow) {
  const int8_t codes[] = {1, -128, 127, 2, 3, -4};
  const float scales[] = {0.5f, 3.0f};
  const WeightView weight{DType::kInt8, codes, 2, 3, scales};
  EXPECT_EQ(values_of(weight, 0), (std::vector<float>{0.5f, -64.0f, 63.5f}));
  EXPECT_EQ(values_of(weight, 1), (std::vector<float>{6.0f, 9.0f, -12.0f}));
}

/// A stored weight of `dtype` with values that depend on the position.
std::vector<uint8_t> stored_weight(DType dtype, int64_t out, int64_t in) {
  std::vector<uint8_t> data(static_cast<size_t>(dtype_bytes(dtype, out * in)));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 37 + i / 7);
  const auto block = static_cast<size_t>(dtype_block_bytes(dtype));
  // Keep floats and scales finite and moderate: upper bytes of about 1.
  for (size_t i = 0; i + block <= data.size(); i += block) {
    if (dtype == DType::kF32) data[i + 3] = 0x3f;
    if (dtype == DType::kBF16) data[i + 1] = 0x3f;
    const bool is_plain = dtype == DType::kF32 || dtype == DType::kBF16;
    const bool has_half = !is_plain && dtype != DType::kNF4 && dtype != DType::kInt8;
    if (has_half && dtype != DType::kQ6_K) data[i + 1] = 0x30;
    if (dtype == DType::kQ6_K) data[i + 209] = 0x20;
    const bool has_minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
    if (has_minimum || dtype == DType::kQ4_K || dtype == DType::kQ5_K) data[i + 3] = 0xb4;
  }
  return data;
}

TEST(PackTest, AProductWithAPackedWeightSeesTheDequantisedRows) {
  const int64_t out = 37;
  std::vector<float> aux{0.01f, 1.5f, 2.5f};  // NF4 reads three, int8 one for each row
  while (aux.size() < 37) aux.push_back(aux.back() * 0.9f);
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kQ4_0, DType::kQ4_1,
                              DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K, DType::kQ5_K,
                              DType::kQ6_K, DType::kNF4, DType::kInt8}) {
      const int64_t in = dtype == DType::kInt8                ? 195
                         : dtype_block_elements(dtype) == 256 ? 512
                                                              : 192;
      const auto data = stored_weight(dtype, out, in);
      const WeightView view{dtype, data.data(), out, in, aux.data()};
      for (const NamedTable& path : all_tables()) {
        ThreadPool pool(2);
        const Context context{&path.table, &pool, compute};
        Values rows(compute, out * in);
        for (int64_t o = 0; o < out; ++o) {
          dequantise_row(context, view, o, rows.at(o * in));
          const auto exact = values_of(view, o);
          for (int64_t i = 0; i < in; ++i) {
            const bool through_bf16 = compute == DType::kBF16 || is_quantised(dtype);
            const float value = exact[static_cast<size_t>(i)];
            ASSERT_EQ(rows.get(o * in + i), through_bf16 ? to_f32(to_bf16(value)) : value);
          }
        }
        const TestWeight direct(context, rows, out, in);
        std::vector<char> forward(packed_forward_bytes(context, out, in), 1);
        std::vector<char> input_grad(packed_input_grad_bytes(context, out, in), 1);
        pack_forward(context, view, forward.data());
        pack_input_grad(context, view, input_grad.data());
        EXPECT_EQ(forward, direct.forward) << path.name << " " << dtype_name(dtype);
        EXPECT_EQ(input_grad, direct.input_grad) << path.name << " " << dtype_name(dtype);
      }
    }
  }
}

TEST(EmbeddingTest, TakesRowsAndZeroesPadding) {
  const SlotTable rows({3, 2}, {-1, -1});
  const int32_t tokens[] = {4, 0, 4, 99999, 1, 2};  // row 3 is padding
  const int64_t v = 5, d = 66;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values weight = Values::random(dtype, v * d, 1, 1.0f);
    ThreadPool pool(2);
    const Context context = make_context(Isa::kScalar, pool, dtype);
    Values y(dtype, 6 * d);
    embedding_forward(context, 6, tokens, {dtype, weight.data(), v, d, nullptr}, y.data(),
                      rows.table);
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t j = 0; j < d; ++j) {
        ASSERT_EQ(y.get(r * d + j), r == 3 ? 0.0 : weight.get(tokens[r] * d + j));
      }
    }
  }
}

TEST(EmbeddingTest, TheGradientAddsTokensInOrder) {
  const SlotTable rows({3, 2}, {-1, -1});
  const int32_t tokens[] = {1, 0, 1, 99999, 1, 0};
  const int64_t v = 2, d = 130;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values dy = Values::random(dtype, 6 * d, 2, 1.0f);
    std::vector<float> expected(static_cast<size_t>(v * d), 0.5f);
    for (const int64_t r : {0, 1, 2, 4, 5}) {
      for (int64_t j = 0; j < d; ++j) {
        expected[static_cast<size_t>(tokens[r] * d + j)] += static_cast<float>(dy.get(r * d + j));
      }
    }
    for (const NamedTable& path : all_tables()) {
      ThreadPool pool(2);
      std::vector<float> acc(static_cast<size_t>(v * d), 0.5f);
      embedding_grad({&path.table, &pool, dtype}, 6, d, tokens, dy.data(), acc.data(), rows.table);
      EXPECT_EQ(acc, expected) << path.name;
    }
  }
}

}  // namespace
}  // namespace mainspring::cpu

// GGUF's weight types against ggml's own values, bit for bit, in all three readers.
#include <cstring>

#include <gtest/gtest.h>

#include "mainspring/base/bf16.h"
#include "mainspring/exec/cpu/dequantise.h"
#include "mainspring/exec/cpu/kernels/table.h"
#include "mainspring/exec/ref/storage.h"
#include "mainspring/weights/dequantise.h"
#include "mainspring/weights/quantise.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr int64_t kRows = 3;
constexpr int64_t kColumns = 512;

class GgmlBlocks : public testing::TestWithParam<std::pair<const char*, DType>> {
 protected:
  void SetUp() override {
    file_ =
        open_safetensors(test::source_path("tests/golden/ggml_blocks/blocks.safetensors")).value();
    const SafetensorsEntry& blocks = entry(std::string(GetParam().first) + ".blocks");
    tensor_.name = "w";
    tensor_.dtype = GetParam().second;
    tensor_.shape = {kRows, kColumns};
    tensor_.data = blocks.data;
    tensor_.size_bytes = blocks.size_bytes;
    ASSERT_EQ(blocks.size_bytes, dtype_bytes(tensor_.dtype, kRows * kColumns));
    expected_ = floats(std::string(GetParam().first) + ".values");
    ASSERT_EQ(expected_.size(), static_cast<size_t>(kRows * kColumns));
  }

  const SafetensorsEntry& entry(const std::string& name) const { return file_.tensors.at(name); }
  std::vector<float> floats(const std::string& name) const {
    const SafetensorsEntry& values = entry(name);
    std::vector<float> out(static_cast<size_t>(values.size_bytes / 4));
    std::memcpy(out.data(), values.data, static_cast<size_t>(values.size_bytes));
    return out;
  }

  Safetensors file_;
  StoredTensor tensor_;
  std::vector<float> expected_;
};

TEST_P(GgmlBlocks, EveryPathDecodesThem) {
  const cpu::WeightView view{tensor_.dtype, tensor_.data, kRows, kColumns, nullptr};
  for (const cpu::Isa isa : cpu::supported_isas()) {
    const cpu::LinearKernels& kernels = cpu::kernel_table(isa).linear->f32;
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> got(kColumns);
      for (int64_t column = 0; column < kColumns; column += cpu::kValueGrain) {  // piece by piece
        cpu::load_values(kernels, view, row, column, cpu::kValueGrain, got.data() + column);
      }
      std::vector<float> whole(kColumns);
      cpu::load_values(kernels, view, row, 0, kColumns, whole.data());
      const float* expected = expected_.data() + row * kColumns;
      EXPECT_EQ(std::memcmp(got.data(), expected, kColumns * 4), 0) << cpu::isa_name(isa) << row;
      EXPECT_EQ(std::memcmp(whole.data(), expected, kColumns * 4), 0) << cpu::isa_name(isa) << row;
    }
  }
}

TEST_P(GgmlBlocks, StoredTensorsAndTheReferenceRoundThemToBf16) {
  const std::vector<float> stored = read_f32(tensor_);
  const std::vector<double> ref =
      ref::decode(tensor_.dtype, tensor_.data, nullptr, kRows * kColumns);
  for (size_t i = 0; i < expected_.size(); ++i) {
    const float rounded = to_f32(to_bf16(expected_[i]));
    ASSERT_EQ(stored[i], rounded) << i;
    ASSERT_EQ(ref[i], static_cast<double>(rounded)) << i;
  }
}

TEST_P(GgmlBlocks, QuantisingTheSourceGivesTheSameBytes) {
  const StoredTensor source = make_tensor("w", {2, kColumns}, DType::kF32, floats("source"));
  const auto quantised = quantise(source, tensor_.dtype);
  if (dtype_block_elements(tensor_.dtype) == 256) {
    EXPECT_EQ(quantised.status().code(), StatusCode::kUnimplemented);
    return;
  }
  ASSERT_TRUE(quantised.ok()) << quantised.status().to_string();
  EXPECT_EQ(std::memcmp(quantised->data, tensor_.data, static_cast<size_t>(quantised->size_bytes)),
            0);
}

INSTANTIATE_TEST_SUITE_P(
    Types, GgmlBlocks,
    testing::Values(std::pair{"Q4_0", DType::kQ4_0}, std::pair{"Q4_1", DType::kQ4_1},
                    std::pair{"Q5_0", DType::kQ5_0}, std::pair{"Q5_1", DType::kQ5_1},
                    std::pair{"Q8_0", DType::kQ8_0}, std::pair{"Q4_K", DType::kQ4_K},
                    std::pair{"Q5_K", DType::kQ5_K}, std::pair{"Q6_K", DType::kQ6_K}),
    [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace mainspring

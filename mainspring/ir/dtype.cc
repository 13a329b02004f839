#include "mainspring/ir/dtype.h"

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};

// In the order of the enum.
constexpr Row kTable[] = {
    {DType::kF32, "f32", 1, 4},       {DType::kBF16, "bf16", 1, 2},
    {DType::kF16, "f16", 1, 2},       {DType::kI32, "i32", 1, 4},
    {DType::kQ4_0, "q4_0", 32, 18},   {DType::kQ4_1, "q4_1", 32, 20},
    {DType::kQ5_0, "q5_0", 32, 22},   {DType::kQ5_1, "q5_1", 32, 24},
    {DType::kQ8_0, "q8_0", 32, 34},   {DType::kQ4_K, "q4_k", 256, 144},
    {DType::kQ5_K, "q5_k", 256, 176}, {DType::kQ6_K, "q6_k", 256, 210},
    {DType::kNF4, "nf4", 64, 33},     {DType::kInt8, "int8", 1, 1},
    {DType::kU8, "u8", 1, 1},
};

const Row& row(DType dtype) { return kTable[static_cast<int>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }
int64_t dtype_block_elements(DType dtype) { return row(dtype).block_elements; }
int64_t dtype_block_bytes(DType dtype) { return row(dtype).block_bytes; }
bool is_quantised(DType dtype) { return dtype >= DType::kQ4_0 && dtype <= DType::kInt8; }

int64_t dtype_bytes(DType dtype, int64_t elements) {
  MS_CHECK(elements % row(dtype).block_elements == 0, "elements must fill whole blocks");
  return elements / row(dtype).block_elements * row(dtype).block_bytes;
}

}  // namespace mainspring

#include "mainspring/exec/cpu/dequantise.h"

#include <cstring>

#include "mainspring/base/check.h"
#include "mainspring/base/f16.h"

namespace mainspring::cpu {
namespace {

float read_f16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

BlockFormat block_format(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return BlockFormat::kQ4_0;
    case DType::kQ4_1:
      return BlockFormat::kQ4_1;
    case DType::kQ5_0:
      return BlockFormat::kQ5_0;
    case DType::kQ5_1:
      return BlockFormat::kQ5_1;
    case DType::kQ8_0:
      return BlockFormat::kQ8_0;
    case DType::kQ4_K:
      return BlockFormat::kQ4_K;
    case DType::kQ5_K:
      return BlockFormat::kQ5_K;
    case DType::kQ6_K:
      return BlockFormat::kQ6_K;
    case DType::kInt8:
      return BlockFormat::kInt8;
    default:
      MS_CHECK(dtype == DType::kNF4, "not a blocked dtype");
      return BlockFormat::kNf4;
  }
}

void load_blocks(const LinearKernels& kernels, const WeightView& weight, int64_t row,
                 int64_t column, int64_t n, float* out) {
  const int64_t first = row * weight.in + column;
  const uint8_t* block =
      static_cast<const uint8_t*>(weight.data) +
      first / dtype_block_elements(weight.dtype) * dtype_block_bytes(weight.dtype);
  const float* aux = weight.dtype == DType::kInt8 ? weight.aux + row : weight.aux;
  kernels.decode[static_cast<size_t>(block_format(weight.dtype))](block, first, n, aux, out);
}

}  // namespace

void load_values(const LinearKernels& kernels, const WeightView& weight, int64_t row,
                 int64_t column, int64_t n, float* out) {
  const int64_t offset = row * weight.in + column;
  switch (weight.dtype) {
    case DType::kF32:
      std::memcpy(out, static_cast<const float*>(weight.data) + offset, static_cast<size_t>(n) * 4);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i)
        out[i] = to_f32(static_cast<const bf16*>(weight.data)[offset + i]);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) {
        out[i] = read_f16(static_cast<const uint8_t*>(weight.data) + 2 * (offset + i));
      }
      return;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kNF4:
    case DType::kInt8:
      load_blocks(kernels, weight, row, column, n, out);
      return;
    case DType::kI32:
    case DType::kU8:
      break;
  }
  MS_CHECK(false, "integers are not weights");
}

}  // namespace mainspring::cpu

#include "mainspring/exec/cpu/dequantise.h"

#include <bit>
#include <cstring>

#include "mainspring/base/check.h"

namespace mainspring::cpu {
namespace {

// The 16 levels of NormalFloat4: Dettmers et al. 2023, arXiv:2305.14314, appendix E.
constexpr float kNormalFloat4[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

float read_f16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

// GGUF keeps the low nibbles of a block's 16 bytes as values 0-15 and the high ones as 16-31.
void block_q4_0(const uint8_t* block, float* out) {
  const float scale = read_f16(block);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[2 + j];
    out[j] = static_cast<float>((byte & 15) - 8) * scale;
    out[16 + j] = static_cast<float>((byte >> 4) - 8) * scale;
  }
}

void block_q4_1(const uint8_t* block, float* out) {
  const float scale = read_f16(block);
  const float minimum = read_f16(block + 2);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[4 + j];
    out[j] = static_cast<float>(byte & 15) * scale + minimum;
    out[16 + j] = static_cast<float>(byte >> 4) * scale + minimum;
  }
}

void block_q8_0(const uint8_t* block, float* out) {
  const float scale = read_f16(block);
  for (int j = 0; j < 32; ++j) {
    out[j] = static_cast<float>(static_cast<int8_t>(block[2 + j])) * scale;
  }
}

// 32 bytes of codes, the first value of a byte in its high half, then the code of the block's
// scale.
void block_nf4(const uint8_t* block, int64_t block_index, const float* aux, float* out) {
  const float code = static_cast<float>(block[32]);
  const float scale = code / 255.0f * aux[1 + block_index / 256] + aux[0];
  for (int j = 0; j < 32; ++j) {
    out[2 * j] = kNormalFloat4[block[j] >> 4] * scale;
    out[2 * j + 1] = kNormalFloat4[block[j] & 15] * scale;
  }
}

void load_blocks(const WeightView& weight, int64_t row, int64_t column, int64_t n, float* out) {
  const int64_t elements = dtype_block_elements(weight.dtype);
  const int64_t bytes = dtype_block_bytes(weight.dtype);
  const int64_t first = (row * weight.in + column) / elements;
  const uint8_t* block = static_cast<const uint8_t*>(weight.data) + first * bytes;
  for (int64_t done = 0; done < n; done += elements, block += bytes, out += elements) {
    switch (weight.dtype) {
      case DType::kQ4_0:
        block_q4_0(block, out);
        break;
      case DType::kQ4_1:
        block_q4_1(block, out);
        break;
      case DType::kQ8_0:
        block_q8_0(block, out);
        break;
      default:
        block_nf4(block, first + done / elements, weight.aux, out);
        break;
    }
  }
}

}  // namespace

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(mantissa) - 21;  // makes bit 10 the leading one
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | static_cast<uint32_t>(113 - shift) << 23 | mantissa << 13);
}

void load_values(const WeightView& weight, int64_t row, int64_t column, int64_t n, float* out) {
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
    case DType::kQ8_0:
    case DType::kNF4:
      load_blocks(weight, row, column, n, out);
      return;
    case DType::kI32:
      break;
  }
  MS_CHECK(false, "integers are not weights");
}

}  // namespace mainspring::cpu

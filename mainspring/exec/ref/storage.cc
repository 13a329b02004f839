#include "mainspring/exec/ref/storage.h"

#include <cmath>
#include <cstring>

#include "mainspring/base/bf16.h"
#include "mainspring/base/check.h"
#include "mainspring/base/nf4_levels.h"

namespace mainspring::ref {
namespace {

template <typename T>
T read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// An IEEE half: sign, 5 exponent bits, 10 mantissa bits.
double half(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// Value `i` of a GGUF block of 32: byte i holds value i in its low half and value i + 16 in its
// high one.
int gguf_code(const uint8_t* codes, int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; }

float q4_0(const uint8_t* block, int i) {
  return static_cast<float>(half(read<uint16_t>(block))) *
         static_cast<float>(gguf_code(block + 2, i) - 8);
}

float q4_1(const uint8_t* block, int i) {
  const auto scale = static_cast<float>(half(read<uint16_t>(block)));
  const auto minimum = static_cast<float>(half(read<uint16_t>(block + 2)));
  return scale * static_cast<float>(gguf_code(block + 4, i)) + minimum;
}

// The fifth bit of value i of a GGUF block of 32.
int fifth_bit(const uint8_t* bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

float q5_0(const uint8_t* block, int i) {
  const int code = gguf_code(block + 6, i) + 16 * fifth_bit(block + 2, i);
  return static_cast<float>(half(read<uint16_t>(block))) * static_cast<float>(code - 16);
}

float q5_1(const uint8_t* block, int i) {
  const auto scale = static_cast<float>(half(read<uint16_t>(block)));
  const auto minimum = static_cast<float>(half(read<uint16_t>(block + 2)));
  const int code = gguf_code(block + 8, i) + 16 * fifth_bit(block + 4, i);
  return scale * static_cast<float>(code) + minimum;
}

// Blocks of 256 in 8 groups of 32. Bytes 4 to 15 hold 8 scales and 8 minima of six bits: those of
// groups 0 to 3 are the low six bits of bytes 4-7 and 8-11; those of groups 4 to 7 have their low
// four bits in the halves of bytes 12-15, their upper two above the six of group g - 4.
int k_scale(const uint8_t* block, int g) {
  if (g < 4) return block[4 + g] % 64;
  return block[8 + g] % 16 + 16 * (block[g] / 64);
}

int k_minimum(const uint8_t* block, int g) {
  if (g < 4) return block[8 + g] % 64;
  return block[8 + g] / 16 + 16 * (block[4 + g] / 64);
}

float k_value(const uint8_t* block, int g, int code) {
  const auto scale = static_cast<float>(half(read<uint16_t>(block)));
  const auto minimum = static_cast<float>(half(read<uint16_t>(block + 2)));
  const float group_scale = scale * static_cast<float>(k_scale(block, g));
  const float group_minimum = minimum * static_cast<float>(k_minimum(block, g));
  return group_scale * static_cast<float>(code) - group_minimum;
}

// Codes of groups 2p and 2p + 1 are the low and high halves of 32 bytes.
int k_code(const uint8_t* codes, int i) {
  const int byte = codes[i / 64 * 32 + i % 32];
  return i / 32 % 2 == 0 ? byte % 16 : byte / 16;
}

float q4_k(const uint8_t* block, int i) { return k_value(block, i / 32, k_code(block + 16, i)); }

// Byte 16 + i % 32 has the fifth bits of the values i of all groups, bit g for group g.
float q5_k(const uint8_t* block, int i) {
  const int fifth = block[16 + i % 32] >> (i / 32) & 1;
  return k_value(block, i / 32, k_code(block + 48, i) + 16 * fifth);
}

// Each half of 128 values has 64 bytes of low nibbles: values 0-63 in the low halves, 64-127 in
// the high ones; and 32 bytes of upper bit pairs, four values 32 apart in a byte. A signed scale
// for each 16 values.
float q6_k(const uint8_t* block, int i) {
  const int in_half = i % 128;
  const int byte = block[i / 128 * 64 + in_half % 64];
  const int low = in_half < 64 ? byte % 16 : byte / 16;
  const int upper = block[128 + i / 128 * 32 + in_half % 32] >> (2 * (in_half / 32)) & 3;
  const auto scale = static_cast<float>(half(read<uint16_t>(block + 208)));
  const float group_scale = scale * read<int8_t>(block + 192 + i / 16);
  return group_scale * static_cast<float>(low + 16 * upper - 32);
}

float q8_0(const uint8_t* block, int i) {
  return static_cast<float>(half(read<uint16_t>(block))) * read<int8_t>(block + 2 + i);
}

// 32 bytes of codes, the even value of each pair in the high half, then the code of the block's
// scale.
float nf4(const uint8_t* block, int64_t block_index, const float* aux, int i) {
  const float scale = static_cast<float>(block[32]) / 255.0f * aux[1 + block_index / 256] + aux[0];
  const int code = i % 2 == 0 ? block[i / 2] >> 4 : block[i / 2] & 15;
  return kNf4Levels[code] * scale;
}

double decode_one(DType dtype, const uint8_t* data, const float* aux, int64_t index, int64_t row) {
  const int64_t block_index = index / dtype_block_elements(dtype);
  const uint8_t* block = data + block_index * dtype_block_bytes(dtype);
  const int i = static_cast<int>(index % dtype_block_elements(dtype));
  switch (dtype) {
    case DType::kF32:
      return read<float>(block);
    case DType::kBF16:
      return to_f32(read<bf16>(block));
    case DType::kF16:
      return half(read<uint16_t>(block));
    case DType::kI32:
      return read<int32_t>(block);
    case DType::kU8:
      return *block;
    case DType::kQ4_0:
      return to_f32(to_bf16(q4_0(block, i)));
    case DType::kQ4_1:
      return to_f32(to_bf16(q4_1(block, i)));
    case DType::kQ5_0:
      return to_f32(to_bf16(q5_0(block, i)));
    case DType::kQ5_1:
      return to_f32(to_bf16(q5_1(block, i)));
    case DType::kQ8_0:
      return to_f32(to_bf16(q8_0(block, i)));
    case DType::kQ4_K:
      return to_f32(to_bf16(q4_k(block, i)));
    case DType::kQ5_K:
      return to_f32(to_bf16(q5_k(block, i)));
    case DType::kQ6_K:
      return to_f32(to_bf16(q6_k(block, i)));
    case DType::kNF4:
      return to_f32(to_bf16(nf4(block, block_index, aux, i)));
    case DType::kInt8:
      return to_f32(to_bf16(aux[row] * read<int8_t>(block)));
  }
  return 0;
}

template <typename T>
void write(void* data, size_t index, T value) {
  std::memcpy(static_cast<uint8_t*>(data) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::vector<double> decode(DType dtype, const void* data, const float* aux, int64_t elements,
                           int64_t row_elements) {
  MS_CHECK(elements % dtype_block_elements(dtype) == 0, "elements must fill whole blocks");
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) {
    values.push_back(
        decode_one(dtype, static_cast<const uint8_t*>(data), aux, i, i / row_elements));
  }
  return values;
}

void encode(DType dtype, const std::vector<double>& values, void* data) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<float>(values[i]);
    switch (dtype) {
      case DType::kF32:
        write(data, i, narrow);
        break;
      case DType::kBF16:
        write(data, i, to_bf16(narrow));
        break;
      case DType::kI32:
        write(data, i, static_cast<int32_t>(values[i]));
        break;
      case DType::kU8:
        write(data, i, static_cast<uint8_t>(values[i]));
        break;
      default:
        MS_CHECK(false, "only plain values are written");
    }
  }
}

}  // namespace mainspring::ref

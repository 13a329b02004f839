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

double decode_one(DType dtype, const uint8_t* data, const float* aux, int64_t index) {
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
    case DType::kQ4_0:
      return to_f32(to_bf16(q4_0(block, i)));
    case DType::kQ4_1:
      return to_f32(to_bf16(q4_1(block, i)));
    case DType::kQ8_0:
      return to_f32(to_bf16(q8_0(block, i)));
    case DType::kNF4:
      return to_f32(to_bf16(nf4(block, block_index, aux, i)));
  }
  return 0;
}

template <typename T>
void write(void* data, size_t index, T value) {
  std::memcpy(static_cast<uint8_t*>(data) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::vector<double> decode(DType dtype, const void* data, const float* aux, int64_t elements) {
  MS_CHECK(elements % dtype_block_elements(dtype) == 0, "elements must fill whole blocks");
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) {
    values.push_back(decode_one(dtype, static_cast<const uint8_t*>(data), aux, i));
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
      default:
        MS_CHECK(false, "only plain values are written");
    }
  }
}

}  // namespace mainspring::ref

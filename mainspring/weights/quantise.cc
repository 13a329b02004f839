#include "mainspring/weights/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "mainspring/base/f16.h"
#include "mainspring/weights/dequantise.h"
#include "mainspring/weights/nf4.h"

namespace mainspring {
namespace {

constexpr int kBlock = 32;  // of the GGUF types

void write_f16(float x, uint8_t* out) {
  const uint16_t bits = f32_to_f16(x);
  std::memcpy(out, &bits, sizeof(bits));
}

/// Scales too small to invert stand for a block of zeros; as halves they are zero anyway.
float inverse_of(float d) {
  constexpr float kSmallest = 1e-30f;
  return std::fabs(d) >= kSmallest ? 1.0f / d : 0.0f;
}

int code4(float x) { return std::min(15, static_cast<int>(static_cast<int8_t>(x))); }

void pack_nibbles(const std::array<int, kBlock>& codes, uint8_t* out) {
  for (int j = 0; j < kBlock / 2; ++j) out[j] = static_cast<uint8_t>(codes[j] | codes[16 + j] << 4);
}

/// The first value of largest magnitude, its sign kept.
float extreme_of(const float* x) {
  float extreme = 0.0f;
  for (int j = 0; j < kBlock; ++j) {
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  }
  return extreme;
}

/// The value of largest magnitude becomes code 0, which stands for -8 (Q5_0: -16).
void block_q4_0(const float* x, uint8_t* out) {
  const float d = extreme_of(x) / -8.0f;
  const float inverse = inverse_of(d);
  std::array<int, kBlock> codes;
  for (int j = 0; j < kBlock; ++j) codes[j] = code4(x[j] * inverse + 8.5f);
  write_f16(d, out);
  pack_nibbles(codes, out + 2);
}

void block_q4_1(const float* x, uint8_t* out) {
  const float low = *std::min_element(x, x + kBlock);
  const float high = *std::max_element(x, x + kBlock);
  const float d = (high - low) / 15.0f;
  const float inverse = inverse_of(d);
  std::array<int, kBlock> codes;
  for (int j = 0; j < kBlock; ++j) codes[j] = code4((x[j] - low) * inverse + 0.5f);
  write_f16(d, out);
  write_f16(low, out + 2);
  pack_nibbles(codes, out + 4);
}

int code5(float x) { return std::min(31, static_cast<int>(static_cast<int8_t>(x))); }

/// Fifth bits as one word, then the nibbles.
void pack_fives(const std::array<int, kBlock>& codes, uint8_t* out) {
  uint32_t fifth = 0;
  std::array<int, kBlock> nibbles;
  for (int j = 0; j < kBlock; ++j) {
    fifth |= static_cast<uint32_t>(codes[j] >> 4) << j;
    nibbles[j] = codes[j] & 15;
  }
  std::memcpy(out, &fifth, sizeof(fifth));
  pack_nibbles(nibbles, out + sizeof(fifth));
}

void block_q5_0(const float* x, uint8_t* out) {
  const float d = extreme_of(x) / -16.0f;
  const float inverse = inverse_of(d);
  std::array<int, kBlock> codes;
  for (int j = 0; j < kBlock; ++j) codes[j] = code5(x[j] * inverse + 16.5f);
  write_f16(d, out);
  pack_fives(codes, out + 2);
}

void block_q5_1(const float* x, uint8_t* out) {
  const float low = *std::min_element(x, x + kBlock);
  const float high = *std::max_element(x, x + kBlock);
  const float d = (high - low) / 31.0f;
  const float inverse = inverse_of(d);
  std::array<int, kBlock> codes;
  for (int j = 0; j < kBlock; ++j) codes[j] = code5((x[j] - low) * inverse + 0.5f);
  write_f16(d, out);
  write_f16(low, out + 2);
  pack_fives(codes, out + 4);
}

void block_q8_0(const float* x, uint8_t* out) {
  float magnitude = 0.0f;
  for (int j = 0; j < kBlock; ++j) magnitude = std::max(magnitude, std::fabs(x[j]));
  const float d = magnitude / 127.0f;
  const float inverse = inverse_of(d);
  write_f16(d, out);
  for (int j = 0; j < kBlock; ++j)
    out[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[j] * inverse)));
}

/// The level nearest to x; halfway between two, the lower one.
uint8_t nf4_code(float x) {
  uint8_t code = 0;
  while (code < 15 && x > (kNf4Levels[code] + kNf4Levels[code + 1]) / 2.0f) ++code;
  return code;
}

// GGUF's scales are halves: beyond this a minimum or a scale could be infinite.
constexpr float kLargestGguf = 65504.0f;

Status check_row(const StoredTensor& tensor, int64_t row, const std::vector<float>& values,
                 float largest) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::fabs(values[i]) <= largest) continue;  // false for NaN
    return invalid_argument("tensor '" + tensor.name + "': row " + std::to_string(row) +
                            ", column " + std::to_string(i) + " is " + std::to_string(values[i]) +
                            "; it cannot be quantised");
  }
  return Status();
}

Status quantise_gguf(const StoredTensor& tensor, DType dtype, uint8_t* out) {
  std::vector<float> values(static_cast<size_t>(row_elements(tensor)));
  for (int64_t row = 0; row < num_rows(tensor); ++row) {
    read_row_f32(tensor, row, values.data());
    MS_RETURN_IF_ERROR(check_row(tensor, row, values, kLargestGguf));
    for (size_t i = 0; i < values.size(); i += kBlock, out += dtype_block_bytes(dtype)) {
      if (dtype == DType::kQ4_0) block_q4_0(values.data() + i, out);
      if (dtype == DType::kQ4_1) block_q4_1(values.data() + i, out);
      if (dtype == DType::kQ5_0) block_q5_0(values.data() + i, out);
      if (dtype == DType::kQ5_1) block_q5_1(values.data() + i, out);
      if (dtype == DType::kQ8_0) block_q8_0(values.data() + i, out);
    }
  }
  return Status();
}

/// The largest magnitude of every block, in block order.
Result<std::vector<float>> nf4_magnitudes(const StoredTensor& tensor) {
  std::vector<float> magnitudes;
  magnitudes.reserve(static_cast<size_t>(tensor.num_elements() / kNf4BlockElements));
  std::vector<float> values(static_cast<size_t>(row_elements(tensor)));
  for (int64_t row = 0; row < num_rows(tensor); ++row) {
    read_row_f32(tensor, row, values.data());
    MS_RETURN_IF_ERROR(check_row(tensor, row, values, std::numeric_limits<float>::max()));
    for (size_t i = 0; i < values.size(); i += kNf4BlockElements) {
      float magnitude = 0.0f;
      for (size_t j = i; j < i + kNf4BlockElements; ++j)
        magnitude = std::max(magnitude, std::fabs(values[j]));
      magnitudes.push_back(magnitude);
    }
  }
  return magnitudes;
}

/// Offset: the smallest block scale of the matrix. Each 256 blocks share a scale: the largest
/// excess over it.
std::vector<float> nf4_aux(const std::vector<float>& magnitudes) {
  std::vector<float> aux;
  const float offset =
      magnitudes.empty() ? 0.0f : *std::min_element(magnitudes.begin(), magnitudes.end());
  aux.push_back(offset);
  for (size_t i = 0; i < magnitudes.size(); i += kNf4BlocksPerScale) {
    const size_t end = std::min(magnitudes.size(), i + static_cast<size_t>(kNf4BlocksPerScale));
    const float largest = *std::max_element(magnitudes.begin() + static_cast<ptrdiff_t>(i),
                                            magnitudes.begin() + static_cast<ptrdiff_t>(end));
    aux.push_back(largest - offset);
  }
  return aux;
}

Status quantise_nf4(const StoredTensor& tensor, StoredTensor& target, uint8_t* out) {
  MS_ASSIGN_OR_RETURN(const std::vector<float> magnitudes, nf4_magnitudes(tensor));
  target.aux = nf4_aux(magnitudes);
  std::vector<float> values(static_cast<size_t>(row_elements(tensor)));
  size_t block = 0;
  for (int64_t row = 0; row < num_rows(tensor); ++row) {
    read_row_f32(tensor, row, values.data());
    for (size_t i = 0; i < values.size(); i += kNf4BlockElements, ++block, out += kNf4BlockBytes) {
      const float group = target.aux[1 + block / kNf4BlocksPerScale];
      const float share = group != 0.0f ? (magnitudes[block] - target.aux[0]) / group : 0.0f;
      const float scale_code = std::round(share * 255.0f);
      // Codes are chosen for the scale that decoding will see.
      const float inverse = inverse_of(scale_code / 255.0f * group + target.aux[0]);
      for (size_t j = 0; j < 32; ++j) {
        const uint8_t first = nf4_code(values[i + 2 * j] * inverse);
        const uint8_t second = nf4_code(values[i + 2 * j + 1] * inverse);
        out[j] = static_cast<uint8_t>(first << 4 | second);
      }
      out[32] = static_cast<uint8_t>(scale_code);
    }
  }
  return Status();
}

/// Scales below the smallest normal number would be flushed: such a row is one of zeros.
Status quantise_int8(const StoredTensor& tensor, StoredTensor& target, uint8_t* out) {
  std::vector<float> values(static_cast<size_t>(row_elements(tensor)));
  for (int64_t row = 0; row < num_rows(tensor); ++row) {
    read_row_f32(tensor, row, values.data());
    MS_RETURN_IF_ERROR(check_row(tensor, row, values, std::numeric_limits<float>::max()));
    float magnitude = 0.0f;
    for (const float value : values) magnitude = std::max(magnitude, std::fabs(value));
    float scale = magnitude / 127.0f;
    if (scale < std::numeric_limits<float>::min()) scale = 0.0f;
    target.aux.push_back(scale);
    for (const float value : values) {
      const float code = scale == 0.0f ? 0.0f : std::nearbyint(value / scale);
      *out++ = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(code, -127.0f, 127.0f)));
    }
  }
  return Status();
}

}  // namespace

Result<StoredTensor> quantise(const StoredTensor& tensor, DType dtype) {
  MS_CHECK(is_quantised(dtype), "not a quantised dtype");
  if (is_quantised(tensor.dtype) || tensor.dtype == DType::kI32 || tensor.dtype == DType::kU8) {
    return unimplemented(
        "tensor '" + tensor.name + "' is stored as " + std::string(dtype_name(tensor.dtype)) +
        ": only f32, f16 and bf16 are quantised; a base that is quantised already is used as it is "
        "(model.quantise = \"\")");
  }
  const int64_t width = dtype_block_elements(dtype);
  if (width == 256) {
    return unimplemented("tensor '" + tensor.name + "': " + std::string(dtype_name(dtype)) +
                         " is read, not made");
  }
  if (row_elements(tensor) % width != 0) {
    return invalid_argument("tensor '" + tensor.name + "': rows of " +
                            std::to_string(row_elements(tensor)) + " are no whole number of " +
                            std::string(dtype_name(dtype)) + " blocks of " + std::to_string(width));
  }
  StoredTensor out;
  out.name = tensor.name;
  out.dtype = dtype;
  out.shape = tensor.shape;
  out.size_bytes = dtype_bytes(dtype, tensor.num_elements());
  auto owned = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(out.size_bytes));
  if (dtype == DType::kNF4) {
    MS_RETURN_IF_ERROR(quantise_nf4(tensor, out, owned->data()));
  } else if (dtype == DType::kInt8) {
    MS_RETURN_IF_ERROR(quantise_int8(tensor, out, owned->data()));
  } else {
    MS_RETURN_IF_ERROR(quantise_gguf(tensor, dtype, owned->data()));
  }
  out.data = owned->data();
  out.owner = std::move(owned);
  return out;
}

Result<TensorSet> quantise_linears(const TensorSet& tensors, DType dtype) {
  TensorSet out;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2 || !name.ends_with("_proj.weight") || is_quantised(tensor.dtype)) {
      out.emplace(name, tensor);
      continue;
    }
    MS_ASSIGN_OR_RETURN(StoredTensor quantised, quantise(tensor, dtype));
    out.emplace(name, std::move(quantised));
  }
  return out;
}

}  // namespace mainspring

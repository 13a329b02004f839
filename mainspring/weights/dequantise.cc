#include "mainspring/weights/dequantise.h"

#include <cstring>
#include <string>

#include "mainspring/base/bf16.h"
#include "mainspring/base/check.h"
#include "mainspring/base/f16.h"
#include "mainspring/weights/nf4.h"

namespace mainspring {
namespace {

template <typename T>
T read(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

float round_bf16(float x) { return to_f32(to_bf16(x)); }

// GGUF keeps values 0-15 of a block in the low halves of its 16 bytes and 16-31 in the high ones.
void read_q4_0(const uint8_t* block, float* out) {
  const float d = f16_to_f32(read<uint16_t>(block));
  for (int j = 0; j < 16; ++j) {
    const int byte = block[2 + j];
    out[j] = round_bf16(static_cast<float>((byte & 15) - 8) * d);
    out[16 + j] = round_bf16(static_cast<float>((byte >> 4) - 8) * d);
  }
}

void read_q4_1(const uint8_t* block, float* out) {
  const float d = f16_to_f32(read<uint16_t>(block));
  const float m = f16_to_f32(read<uint16_t>(block + 2));
  for (int j = 0; j < 16; ++j) {
    const int byte = block[4 + j];
    out[j] = round_bf16(static_cast<float>(byte & 15) * d + m);
    out[16 + j] = round_bf16(static_cast<float>(byte >> 4) * d + m);
  }
}

/// Both kinds keep the fifth bits as one little-endian word in front of the codes.
int code5(const uint8_t* codes, uint32_t fifth, int i) {
  const int nibble = i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
  return nibble | static_cast<int>(fifth >> i & 1u) << 4;
}

void read_q5_0(const uint8_t* block, float* out) {
  const float d = f16_to_f32(read<uint16_t>(block));
  const auto fifth = read<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i)
    out[i] = round_bf16(static_cast<float>(code5(block + 6, fifth, i) - 16) * d);
}

void read_q5_1(const uint8_t* block, float* out) {
  const float d = f16_to_f32(read<uint16_t>(block));
  const float m = f16_to_f32(read<uint16_t>(block + 2));
  const auto fifth = read<uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i)
    out[i] = round_bf16(static_cast<float>(code5(block + 8, fifth, i)) * d + m);
}

void read_q8_0(const uint8_t* block, float* out) {
  const float d = f16_to_f32(read<uint16_t>(block));
  for (int j = 0; j < 32; ++j)
    out[j] = round_bf16(static_cast<float>(static_cast<int8_t>(block[2 + j])) * d);
}

/// Q4_K and Q5_K: scale and minimum of each of 8 groups, six bits each in 12 bytes.
void read_k_scales(const uint8_t* block, float* scales, float* minima) {
  const float d = f16_to_f32(read<uint16_t>(block));
  const float dmin = f16_to_f32(read<uint16_t>(block + 2));
  const uint8_t* packed = block + 4;
  for (int g = 0; g < 4; ++g) {
    scales[g] = d * static_cast<float>(packed[g] & 63);
    minima[g] = dmin * static_cast<float>(packed[g + 4] & 63);
    const int scale = (packed[g + 8] & 15) | (packed[g] >> 6) << 4;
    const int minimum = packed[g + 8] >> 4 | (packed[g + 4] >> 6) << 4;
    scales[g + 4] = d * static_cast<float>(scale);
    minima[g + 4] = dmin * static_cast<float>(minimum);
  }
}

/// `fifth` null: four-bit codes.
void read_q45_k(const uint8_t* block, const uint8_t* codes, const uint8_t* fifth, float* out) {
  float scales[8];
  float minima[8];
  read_k_scales(block, scales, minima);
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      const int byte = codes[g / 2 * 32 + i];
      int code = g % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifth != nullptr) code |= (fifth[i] >> g & 1) << 4;
      out[32 * g + i] = round_bf16(static_cast<float>(code) * scales[g] - minima[g]);
    }
  }
}

void read_q6_k(const uint8_t* block, float* out) {
  const float d = f16_to_f32(read<uint16_t>(block + 208));
  for (int g = 0; g < 16; ++g) {  // groups of 16; quarters of 32 values share bytes
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + g]));
    const int half = g / 8;
    const int quarter = g % 8 / 2;
    for (int i = 0; i < 16; ++i) {
      const int j = g % 2 * 16 + i;
      const int byte = block[64 * half + 32 * (quarter % 2) + j];
      const int low = quarter < 2 ? byte & 15 : byte >> 4;
      const int upper = block[128 + 32 * half + j] >> (2 * quarter) & 3;
      out[16 * g + i] = round_bf16(static_cast<float>((low | upper << 4) - 32) * scale);
    }
  }
}

void read_nf4(const uint8_t* block, int64_t block_index, const std::vector<float>& aux,
              float* out) {
  const float code = static_cast<float>(block[32]);
  const float scale =
      code / 255.0f * aux[static_cast<size_t>(1 + block_index / kNf4BlocksPerScale)] + aux[0];
  for (int j = 0; j < 32; ++j) {
    out[2 * j] = round_bf16(kNf4Levels[block[j] >> 4] * scale);
    out[2 * j + 1] = round_bf16(kNf4Levels[block[j] & 15] * scale);
  }
}

void read_int8(const StoredTensor& tensor, int64_t row, float* out) {
  const int64_t columns = row_elements(tensor);
  const auto* codes = static_cast<const int8_t*>(tensor.data) + row * columns;
  const float scale = tensor.aux[static_cast<size_t>(row)];
  for (int64_t i = 0; i < columns; ++i) out[i] = round_bf16(static_cast<float>(codes[i]) * scale);
}

void read_blocks(const StoredTensor& tensor, int64_t row, float* out) {
  const int64_t width = dtype_block_elements(tensor.dtype);
  const int64_t columns = row_elements(tensor);
  MS_CHECK(columns % width == 0, "blocks of " + tensor.name + " cross rows");
  const int64_t first = row * columns / width;
  const auto* block =
      static_cast<const uint8_t*>(tensor.data) + first * dtype_block_bytes(tensor.dtype);
  for (int64_t b = first; b < first + columns / width; ++b) {
    switch (tensor.dtype) {
      case DType::kQ4_0:
        read_q4_0(block, out);
        break;
      case DType::kQ4_1:
        read_q4_1(block, out);
        break;
      case DType::kQ5_0:
        read_q5_0(block, out);
        break;
      case DType::kQ5_1:
        read_q5_1(block, out);
        break;
      case DType::kQ8_0:
        read_q8_0(block, out);
        break;
      case DType::kQ4_K:
        read_q45_k(block, block + 16, nullptr, out);
        break;
      case DType::kQ5_K:
        read_q45_k(block, block + 48, block + 16, out);
        break;
      case DType::kQ6_K:
        read_q6_k(block, out);
        break;
      default:
        read_nf4(block, b, tensor.aux, out);
    }
    block += dtype_block_bytes(tensor.dtype);
    out += width;
  }
}

}  // namespace

int64_t row_elements(const StoredTensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.back();
}

int64_t num_rows(const StoredTensor& tensor) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return rows;
}

void read_row_f32(const StoredTensor& tensor, int64_t row, float* out) {
  const int64_t columns = row_elements(tensor);
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  switch (tensor.dtype) {
    case DType::kF32:
      std::memcpy(out, bytes + 4 * row * columns, static_cast<size_t>(4 * columns));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < columns; ++i)
        out[i] = to_f32(read<bf16>(bytes + 2 * (row * columns + i)));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < columns; ++i)
        out[i] = f16_to_f32(read<uint16_t>(bytes + 2 * (row * columns + i)));
      return;
    case DType::kI32:
    case DType::kU8:
      MS_CHECK(false, tensor.name + " holds integers");
      return;
    case DType::kInt8:
      read_int8(tensor, row, out);
      return;
    default:
      read_blocks(tensor, row, out);
  }
}

std::vector<float> read_f32(const StoredTensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.num_elements()));
  const int64_t columns = row_elements(tensor);
  if (columns == 0) return out;
  for (int64_t row = 0; row < num_rows(tensor); ++row)
    read_row_f32(tensor, row, out.data() + row * columns);
  return out;
}

namespace {

/// An empty tensor with memory of its own; `memory` points into it.
StoredTensor allocate_tensor(const std::string& name, std::vector<int64_t> shape, DType dtype,
                             uint8_t*& memory) {
  StoredTensor out;
  out.name = name;
  out.dtype = dtype;
  out.shape = std::move(shape);
  out.size_bytes = dtype_bytes(dtype, out.num_elements());
  // f32 words: aligned for every plain dtype.
  auto owned = std::make_shared<std::vector<float>>(static_cast<size_t>((out.size_bytes + 3) / 4));
  memory = reinterpret_cast<uint8_t*>(owned->data());
  out.data = owned->data();
  out.owner = std::move(owned);
  return out;
}

void write_values(DType dtype, const float* values, int64_t count, uint8_t* out) {
  MS_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16,
           "only f32, f16 and bf16 tensors are made");
  if (dtype == DType::kF32) {
    std::memcpy(out, values, static_cast<size_t>(4 * count));
    return;
  }
  if (dtype == DType::kF16) {
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t value = f32_to_f16(values[i]);
      std::memcpy(out + 2 * i, &value, sizeof(value));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const bf16 value = to_bf16(values[i]);
    std::memcpy(out + 2 * i, &value, sizeof(value));
  }
}

}  // namespace

StoredTensor make_tensor(const std::string& name, std::vector<int64_t> shape, DType dtype,
                         const std::vector<float>& values) {
  uint8_t* memory = nullptr;
  StoredTensor out = allocate_tensor(name, std::move(shape), dtype, memory);
  MS_CHECK(out.num_elements() == static_cast<int64_t>(values.size()),
           name + ": values do not fill the shape");
  write_values(dtype, values.data(), out.num_elements(), memory);
  return out;
}

StoredTensor to_dtype(const StoredTensor& tensor, DType dtype) {
  if (tensor.dtype == dtype) return tensor;
  uint8_t* memory = nullptr;
  StoredTensor out = allocate_tensor(tensor.name, tensor.shape, dtype, memory);
  const int64_t columns = row_elements(tensor);
  if (columns == 0) return out;
  std::vector<float> row_values(static_cast<size_t>(columns));
  for (int64_t row = 0; row < num_rows(tensor); ++row) {
    read_row_f32(tensor, row, row_values.data());
    write_values(dtype, row_values.data(), columns, memory + dtype_bytes(dtype, row * columns));
  }
  return out;
}

TensorSet to_dtype(const TensorSet& tensors, DType dtype) {
  TensorSet out;
  for (const auto& [name, tensor] : tensors) out.emplace(name, to_dtype(tensor, dtype));
  return out;
}

}  // namespace mainspring

// Element types of values and of stored weights, block-quantised ones included.
#pragma once

#include <cstdint>
#include <string_view>

namespace mainspring {

enum class DType : uint8_t {
  kF32,
  kBF16,
  kF16,  // storage only
  kI32,
  // Quantised from here on (is_quantised).
  kQ4_0,  // GGUF: 32 values, f16 scale
  kQ4_1,  // GGUF: 32 values, f16 scale and minimum
  kQ5_0,  // GGUF: 32 values, f16 scale, fifth bits apart
  kQ5_1,  // GGUF: 32 values, f16 scale and minimum, fifth bits apart
  kQ8_0,  // GGUF: 32 values, f16 scale
  kQ4_K,  // GGUF: 256 values, groups of 32 with 6-bit scales and minima of an f16 each
  kQ5_K,  // GGUF: as kQ4_K, fifth bits apart
  kQ6_K,  // GGUF: 256 values, groups of 16 with 8-bit scales of an f16
  kNF4,   // 64 values, 4-bit NormalFloat codes, double-quantised scales (weights/nf4.h has the
          // layout)
  kInt8,  // signed codes, one f32 scale for each row of the matrix, beside the codes
  kU8,    // codes of optimizer states (base/dynamic_map.h)
};

/// "f32", "bf16", "f16", "i32", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k",
/// "nf4", "int8", "u8".
std::string_view dtype_name(DType dtype);

/// Values per storage block (1 for plain types and int8).
int64_t dtype_block_elements(DType dtype);

/// Bytes of one storage block: 4, 2, 2, 4, 18, 20, 22, 24, 34, 144, 176, 210; NF4: 32 code bytes
/// + 1 scale byte = 33; int8, u8: 1.
int64_t dtype_block_bytes(DType dtype);

bool is_quantised(DType dtype);

/// Bytes of `elements` values, a multiple of the block.
int64_t dtype_bytes(DType dtype, int64_t elements);

}  // namespace mainspring

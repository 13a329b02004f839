// Values of quantised blocks: plain loops that each path's compiler turns into its own vectors.
// Multiplication and addition stay apart (-ffp-contract=off), so all paths give the same bits.
// Included by a path's unit after simd.h.
#pragma once

#include "mainspring/base/f16.h"
#include "mainspring/base/nf4_levels.h"
#include "mainspring/exec/cpu/kernels/linear_table.h"

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

MS_INLINE float read_f16(const uint8_t* p) {
  uint16_t bits;
  __builtin_memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

// GGUF keeps the low nibbles of a block's 16 bytes as values 0-15 and the high ones as 16-31.
MS_INLINE void block_q4_0(const uint8_t* __restrict block, float* __restrict out) {
  const float scale = read_f16(block);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[2 + j];
    out[j] = static_cast<float>((byte & 15) - 8) * scale;
    out[16 + j] = static_cast<float>((byte >> 4) - 8) * scale;
  }
}

MS_INLINE void block_q4_1(const uint8_t* __restrict block, float* __restrict out) {
  const float scale = read_f16(block);
  const float minimum = read_f16(block + 2);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[4 + j];
    out[j] = static_cast<float>(byte & 15) * scale + minimum;
    out[16 + j] = static_cast<float>(byte >> 4) * scale + minimum;
  }
}

/// The fifth bits of values 0-31, lowest first.
MS_INLINE uint32_t read_fifth_bits(const uint8_t* p) {
  uint32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return bits;
}

MS_INLINE void block_q5_0(const uint8_t* __restrict block, float* __restrict out) {
  const float scale = read_f16(block);
  const uint32_t fifth = read_fifth_bits(block + 2);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[6 + j];
    const int low = (byte & 15) | static_cast<int>(fifth >> j & 1u) << 4;
    const int high = byte >> 4 | static_cast<int>(fifth >> (j + 16) & 1u) << 4;
    out[j] = static_cast<float>(low - 16) * scale;
    out[16 + j] = static_cast<float>(high - 16) * scale;
  }
}

MS_INLINE void block_q5_1(const uint8_t* __restrict block, float* __restrict out) {
  const float scale = read_f16(block);
  const float minimum = read_f16(block + 2);
  const uint32_t fifth = read_fifth_bits(block + 4);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[8 + j];
    const int low = (byte & 15) | static_cast<int>(fifth >> j & 1u) << 4;
    const int high = byte >> 4 | static_cast<int>(fifth >> (j + 16) & 1u) << 4;
    out[j] = static_cast<float>(low) * scale + minimum;
    out[16 + j] = static_cast<float>(high) * scale + minimum;
  }
}

MS_INLINE void block_q8_0(const uint8_t* __restrict block, float* __restrict out) {
  const float scale = read_f16(block);
  for (int j = 0; j < 32; ++j) {
    out[j] = static_cast<float>(static_cast<int8_t>(block[2 + j])) * scale;
  }
}

// 32 bytes of codes, the first value of a byte in its high half, then the code of the block's
// scale.
MS_INLINE void block_nf4(const uint8_t* __restrict block, int64_t block_index, const float* aux,
                         float* __restrict out) {
  const float code = static_cast<float>(block[32]);
  const float scale = code / 255.0f * aux[1 + block_index / 256] + aux[0];
  for (int j = 0; j < 32; ++j) {
    out[2 * j] = kNf4Levels[block[j] >> 4] * scale;
    out[2 * j + 1] = kNf4Levels[block[j] & 15] * scale;
  }
}

inline void decode_q4_0(const uint8_t* block, int64_t, int64_t n, const float*, float* out) {
  for (int64_t i = 0; i < n; i += 32, block += 18, out += 32) block_q4_0(block, out);
}

inline void decode_q4_1(const uint8_t* block, int64_t, int64_t n, const float*, float* out) {
  for (int64_t i = 0; i < n; i += 32, block += 20, out += 32) block_q4_1(block, out);
}

inline void decode_q5_0(const uint8_t* block, int64_t, int64_t n, const float*, float* out) {
  for (int64_t i = 0; i < n; i += 32, block += 22, out += 32) block_q5_0(block, out);
}

inline void decode_q5_1(const uint8_t* block, int64_t, int64_t n, const float*, float* out) {
  for (int64_t i = 0; i < n; i += 32, block += 24, out += 32) block_q5_1(block, out);
}

inline void decode_q8_0(const uint8_t* block, int64_t, int64_t n, const float*, float* out) {
  for (int64_t i = 0; i < n; i += 32, block += 34, out += 32) block_q8_0(block, out);
}

inline void decode_nf4(const uint8_t* block, int64_t first, int64_t n, const float* aux,
                       float* out) {
  int64_t index = first / 64;
  for (int64_t i = 0; i < n; i += 64, block += 33, out += 64) block_nf4(block, index++, aux, out);
}

inline void decode_int8(const uint8_t* __restrict codes, int64_t, int64_t n, const float* scale,
                        float* __restrict out) {
  const float s = *scale;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * s;
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

#include "mainspring/exec/cpu/kernels/decode_k.h"  // uses read_f16

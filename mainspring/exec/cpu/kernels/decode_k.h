// Values of GGUF's blocks of 256 ("k-quants"): groups with small integer scales of a common half.
// Decoded by halves of 128, so that callers need not hold whole blocks.
// Plain loops, as in decode.h, which includes this file.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

/// Scale and minimum of group `g` of 8, six bits each, packed in 12 bytes: the first four of each
/// in the low bits of bytes 0-3 and 4-7; of the others the low four bits in bytes 8-11 and the
/// upper two on top of the first four's.
struct GroupScale {
  float scale, minimum;
};
MS_INLINE GroupScale group_scale(const uint8_t* s, int g, float d, float dmin) {
  const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
  const int minimum = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
  return {d * static_cast<float>(scale), dmin * static_cast<float>(minimum)};
}

/// 64 values: the low nibbles of 32 bytes, then the high ones.
MS_INLINE void groups_q4_k(const uint8_t* __restrict codes, GroupScale low, GroupScale high,
                           float* __restrict out) {
  for (int j = 0; j < 32; ++j) {
    out[j] = static_cast<float>(codes[j] & 15) * low.scale - low.minimum;
    out[32 + j] = static_cast<float>(codes[j] >> 4) * high.scale - high.minimum;
  }
}

/// The same with bit `bit` of byte j of `fifth` above the low nibble and the next bit above the
/// high one.
MS_INLINE void groups_q5_k(const uint8_t* __restrict codes, const uint8_t* __restrict fifth,
                           int bit, GroupScale low, GroupScale high, float* __restrict out) {
  for (int j = 0; j < 32; ++j) {
    const int bits = fifth[j] >> bit;
    out[j] = static_cast<float>((codes[j] & 15) | (bits & 1) << 4) * low.scale - low.minimum;
    out[32 + j] = static_cast<float>(codes[j] >> 4 | (bits & 2) << 3) * high.scale - high.minimum;
  }
}

/// Half `half` of a Q4_K block: d, dmin, 12 bytes of scales, 128 of codes.
MS_INLINE void half_q4_k(const uint8_t* block, int half, float* out) {
  const float d = read_f16(block);
  const float dmin = read_f16(block + 2);
  for (int pair = 2 * half; pair < 2 * half + 2; ++pair, out += 64) {
    groups_q4_k(block + 16 + 32 * pair, group_scale(block + 4, 2 * pair, d, dmin),
                group_scale(block + 4, 2 * pair + 1, d, dmin), out);
  }
}

/// Half `half` of a Q5_K block: d, dmin, 12 bytes of scales, 32 of fifth bits, 128 of codes.
MS_INLINE void half_q5_k(const uint8_t* block, int half, float* out) {
  const float d = read_f16(block);
  const float dmin = read_f16(block + 2);
  for (int pair = 2 * half; pair < 2 * half + 2; ++pair, out += 64) {
    groups_q5_k(block + 48 + 32 * pair, block + 16, 2 * pair,
                group_scale(block + 4, 2 * pair, d, dmin),
                group_scale(block + 4, 2 * pair + 1, d, dmin), out);
  }
}

/// Half `half` of a Q6_K block: 2 x 64 bytes of low nibbles, 2 x 32 of upper bit pairs, 2 x 8
/// signed scales (one per 16 values), d.
MS_INLINE void half_q6_k(const uint8_t* __restrict block, int half, float* __restrict out) {
  const uint8_t* low = block + 64 * half;
  const uint8_t* high = block + 128 + 32 * half;
  const uint8_t* scales = block + 192 + 8 * half;
  const float d = read_f16(block + 208);
  float scale[8];
  for (int g = 0; g < 8; ++g) scale[g] = d * static_cast<float>(static_cast<int8_t>(scales[g]));
  for (int g = 0; g < 2; ++g) {
    for (int i = 0; i < 16; ++i) {
      const int j = 16 * g + i;
      const int a = low[j];
      const int b = low[32 + j];
      const int h = high[j];
      out[j] = static_cast<float>(((a & 15) | (h & 3) << 4) - 32) * scale[g];
      out[32 + j] = static_cast<float>(((b & 15) | (h >> 2 & 3) << 4) - 32) * scale[2 + g];
      out[64 + j] = static_cast<float>((a >> 4 | (h >> 4 & 3) << 4) - 32) * scale[4 + g];
      out[96 + j] = static_cast<float>((b >> 4 | h >> 6 << 4) - 32) * scale[6 + g];
    }
  }
}

/// Values [first, first + n) of a tensor in halves; `block` holds value `first`.
template <int kBlockBytes, void (*kHalf)(const uint8_t*, int, float*)>
inline void decode_halves(const uint8_t* block, int64_t first, int64_t n, float* out) {
  int half = static_cast<int>(first % 256 / 128);
  for (int64_t i = 0; i < n; i += 128, out += 128) {
    kHalf(block, half, out);
    block += half * kBlockBytes;
    half ^= 1;
  }
}

inline void decode_q4_k(const uint8_t* block, int64_t first, int64_t n, const float*, float* out) {
  decode_halves<144, half_q4_k>(block, first, n, out);
}

inline void decode_q5_k(const uint8_t* block, int64_t first, int64_t n, const float*, float* out) {
  decode_halves<176, half_q5_k>(block, first, n, out);
}

inline void decode_q6_k(const uint8_t* block, int64_t first, int64_t n, const float*, float* out) {
  decode_halves<210, half_q6_k>(block, first, n, out);
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

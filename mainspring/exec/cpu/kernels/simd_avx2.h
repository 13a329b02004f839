// The AVX2 path's vector: two __m256, lanes 0-7 and 8-15. See simd.h for the contract.
// Flags: -mavx2 -mfma.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

struct F16 {
  __m256 lo, hi;
};
struct I16 {
  __m256i lo, hi;
};
struct P16 {
  __m256i lo, hi;
};
struct M16 {
  __m256 lo, hi;  // all ones or all zeros per lane
};

/// Lane i of the result is all ones if i < n.
MS_INLINE M16 first_n(int n) {
  const __m256i count = _mm256_set1_epi32(n);
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high))};
}

MS_INLINE F16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
MS_INLINE F16 load_n(const float* p, int n) {
  const M16 m = first_n(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
MS_INLINE void store(float* p, F16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
MS_INLINE void store_n(float* p, F16 a, int n) {
  const M16 m = first_n(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
MS_INLINE __m256 widen_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
MS_INLINE F16 load_bf16(const uint16_t* p) {
  return {widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
MS_INLINE F16 load_bf16_n(const uint16_t* p, int n) {
  alignas(32) uint16_t buffer[16] = {};
  for (int i = 0; i < n; ++i) buffer[i] = p[i];
  return load_bf16(buffer);
}

/// Rule 2 on 8 lanes: the bf16 in the upper half of each lane, the lower half zero.
MS_INLINE __m256i round_bf16_bits(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), lsb);
  const __m256i exponent = _mm256_and_si256(u, _mm256_set1_epi32(0x7f800000));
  const __m256i tiny = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
  const __m256i sign = _mm256_and_si256(u, _mm256_set1_epi32(static_cast<int>(0x80000000u)));
  r = _mm256_blendv_epi8(r, sign, tiny);
  const __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x00400000)), nan);
  return _mm256_and_si256(r, high);
}
MS_INLINE F16 round_bf16(F16 a) {
  return {_mm256_castsi256_ps(round_bf16_bits(a.lo)), _mm256_castsi256_ps(round_bf16_bits(a.hi))};
}
MS_INLINE void store_bf16(uint16_t* p, F16 a) {
  const __m256i lo = _mm256_srli_epi32(round_bf16_bits(a.lo), 16);
  const __m256i hi = _mm256_srli_epi32(round_bf16_bits(a.hi), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
}
/// a to p, b behind it.
MS_INLINE void store_bf16_pair(uint16_t* p, F16 a, F16 b) {
  store_bf16(p, a);
  store_bf16(p + 16, b);
}
MS_INLINE void store_bf16_n(uint16_t* p, F16 a, int n) {
  alignas(32) uint16_t buffer[16];
  store_bf16(buffer, a);
  for (int i = 0; i < n; ++i) p[i] = buffer[i];
}

MS_INLINE F16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
MS_INLINE F16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
MS_INLINE F16 add(F16 a, F16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
MS_INLINE F16 sub(F16 a, F16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
MS_INLINE F16 mul(F16 a, F16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
MS_INLINE F16 div(F16 a, F16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
MS_INLINE F16 sqrt(F16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
MS_INLINE F16 fma(F16 a, F16 b, F16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
MS_INLINE F16 fnma(F16 a, F16 b, F16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
MS_INLINE F16 neg(F16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
MS_INLINE F16 abs(F16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
MS_INLINE F16 max(F16 a, F16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
MS_INLINE F16 min(F16 a, F16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }

MS_INLINE M16 lt(F16 a, F16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
MS_INLINE M16 le(F16 a, F16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
MS_INLINE M16 eq(F16 a, F16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
MS_INLINE M16 is_nan(F16 a) {
  return {_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
MS_INLINE M16 mask_and(M16 a, M16 b) {
  return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
MS_INLINE M16 mask_or(M16 a, M16 b) { return {_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)}; }
MS_INLINE M16 mask_not(M16 a) {
  const __m256 ones = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  return {_mm256_xor_ps(a.lo, ones), _mm256_xor_ps(a.hi, ones)};
}
MS_INLINE bool any(M16 m) { return (_mm256_movemask_ps(m.lo) | _mm256_movemask_ps(m.hi)) != 0; }
MS_INLINE F16 select(M16 m, F16 a, F16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}

MS_INLINE I16 iset(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
MS_INLINE I16 iload(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
MS_INLINE void istore(int32_t* p, I16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
MS_INLINE I16 round_to_int(F16 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
MS_INLINE F16 to_float(I16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
MS_INLINE I16 bits(F16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
MS_INLINE F16 from_bits(I16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
MS_INLINE I16 iadd(I16 a, I16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
MS_INLINE I16 isub(I16 a, I16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
MS_INLINE I16 iand(I16 a, I16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
MS_INLINE I16 ior(I16 a, I16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
MS_INLINE I16 ixor(I16 a, I16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
MS_INLINE void mul_wide_256(__m256i a, __m256i b, __m256i& low, __m256i& high) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
MS_INLINE I16 load_bytes_n(const uint8_t* p, int n) {
  alignas(16) uint8_t buffer[16] = {};
  if (n < 16) {
    for (int i = 0; i < n; ++i) buffer[i] = p[i];
    p = buffer;
  }
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8))};
}
MS_INLINE void store_bytes_n(uint8_t* p, I16 a, int n) {
  const __m256i low = _mm256_set1_epi32(0xff);
  // Halves of 16 bits by lanes of 128: 0-3, 8-11, 4-7, 12-15; then in order.
  const __m256i halves =
      _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low));
  const __m256i ordered = _mm256_permute4x64_epi64(halves, 0xd8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
  if (n == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    return;
  }
  alignas(16) uint8_t buffer[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(buffer), bytes);
  for (int i = 0; i < n; ++i) p[i] = buffer[i];
}
MS_INLINE F16 gather(const float* table, I16 at) {
  return {_mm256_i32gather_ps(table, at.lo, 4), _mm256_i32gather_ps(table, at.hi, 4)};
}
/// The low and high words of the products of unsigned lanes.
MS_INLINE void imul_wide(I16 a, uint32_t b, I16& low, I16& high) {
  const __m256i y = _mm256_set1_epi32(static_cast<int>(b));
  mul_wide_256(a.lo, y, low.lo, high.lo);
  mul_wide_256(a.hi, y, low.hi, high.hi);
}
template <int N>
MS_INLINE I16 shl(I16 a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
MS_INLINE I16 shr(I16 a) {
  return {_mm256_srli_epi32(a.lo, N), _mm256_srli_epi32(a.hi, N)};
}
template <int N>
MS_INLINE I16 sar(I16 a) {
  return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
}
MS_INLINE M16 ieq(I16 a, I16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.lo, b.lo)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(a.hi, b.hi))};
}
MS_INLINE M16 igt(I16 a, I16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.lo, b.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(a.hi, b.hi))};
}
MS_INLINE I16 iselect(M16 m, I16 a, I16 b) {
  return {_mm256_blendv_epi8(b.lo, a.lo, _mm256_castps_si256(m.lo)),
          _mm256_blendv_epi8(b.hi, a.hi, _mm256_castps_si256(m.hi))};
}

MS_INLINE float sum(F16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
MS_INLINE float max_lane(F16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

MS_INLINE P16 load_pairs(const uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
MS_INLINE P16 load_pairs_n(const uint32_t* p, int n) {
  const M16 m = first_n(n);
  const int* ip = reinterpret_cast<const int*>(p);
  return {_mm256_maskload_epi32(ip, _mm256_castps_si256(m.lo)),
          _mm256_maskload_epi32(ip + 8, _mm256_castps_si256(m.hi))};
}
MS_INLINE P16 broadcast_pair(uint32_t x) {
  const __m256i v = _mm256_set1_epi32(static_cast<int>(x));
  return {v, v};
}
MS_INLINE P16 pack_pairs(F16 even, F16 odd) {
  return {
      _mm256_or_si256(_mm256_srli_epi32(round_bf16_bits(even.lo), 16), round_bf16_bits(odd.lo)),
      _mm256_or_si256(_mm256_srli_epi32(round_bf16_bits(even.hi), 16), round_bf16_bits(odd.hi))};
}
MS_INLINE void store_pairs(uint32_t* p, P16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
MS_INLINE F16 pair_even(P16 a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(a.lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(a.hi, 16))};
}
MS_INLINE F16 pair_odd(P16 a) {
  // A zero that the compiler cannot keep in a register across a loop, unlike a mask: with 12
  // accumulators in the 16 registers, gcc 12 spills some of them for the mask's sake.
  __m256i zero = _mm256_setzero_si256();
  asm volatile("" : "+x"(zero));
  return {_mm256_castsi256_ps(_mm256_blend_epi16(zero, a.lo, 0xaa)),
          _mm256_castsi256_ps(_mm256_blend_epi16(zero, a.hi, 0xaa))};
}
MS_INLINE F16 dot(F16 acc, P16 a, P16 b) {
  acc = fma(pair_odd(a), pair_odd(b), acc);
  return fma(pair_even(a), pair_even(b), acc);
}

/// Pairs (even[i], odd[i]) of two rows.
MS_INLINE P16 zip_pairs(const uint16_t* even, const uint16_t* odd) {
  const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(even));
  const __m256i o = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(odd));
  const __m256i a = _mm256_unpacklo_epi16(e, o);  // pairs 0-3 and 8-11
  const __m256i b = _mm256_unpackhi_epi16(e, o);  // pairs 4-7 and 12-15
  return {_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
}
MS_INLINE P16 zip_pairs_n(const uint16_t* even, const uint16_t* odd, int n) {
  alignas(32) uint16_t e[16] = {};
  alignas(32) uint16_t o[16] = {};
  for (int i = 0; i < n; ++i) {
    e[i] = even[i];
    o[i] = odd[i];
  }
  return zip_pairs(e, o);
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

#include "mainspring/exec/cpu/kernels/simd_words256.h"

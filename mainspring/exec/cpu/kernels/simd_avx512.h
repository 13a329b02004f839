// The AVX-512 paths' vector: one __m512. See simd.h for the contract.
// Flags: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma (and, for gcc 12, -Wno-uninitialized
// -Wno-maybe-uninitialized: its own intrinsics headers trip them); avx512bf16 adds -mavx512bf16 and
// two of its instructions (vcvtneps2bf16, vdpbf16ps), which round and flush whatever MXCSR says.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

struct F16 {
  __m512 v;
};
struct I16 {
  __m512i v;
};
struct P16 {
  __m512i v;
};
struct M16 {
  __mmask16 m;
};

MS_INLINE M16 first_n(int n) { return {static_cast<__mmask16>((1u << n) - 1u)}; }

MS_INLINE F16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
MS_INLINE F16 load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_n(n).m, p)}; }
MS_INLINE void store(float* p, F16 a) { _mm512_storeu_ps(p, a.v); }
MS_INLINE void store_n(float* p, F16 a, int n) { _mm512_mask_storeu_ps(p, first_n(n).m, a.v); }
MS_INLINE F16 widen_bf16(__m256i x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
MS_INLINE F16 load_bf16(const uint16_t* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
MS_INLINE F16 load_bf16_n(const uint16_t* p, int n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(first_n(n).m, p));
}

/// Rule 2: 16 bf16.
MS_INLINE __m256i narrow_bf16(F16 a) {
#if defined(MS_ISA_AVX512BF16)
  return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(a.v));
#else
  const __m512i u = _mm512_castps_si512(a.v);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), lsb);
  const __mmask16 tiny = _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
  r = _mm512_mask_and_epi32(r, tiny, u, _mm512_set1_epi32(static_cast<int>(0x80000000u)));
  const __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff)),
                                                _mm512_set1_epi32(0x7f800000));
  r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x00400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
#endif
}
MS_INLINE F16 round_bf16(F16 a) { return widen_bf16(narrow_bf16(a)); }
MS_INLINE void store_bf16(uint16_t* p, F16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(a));
}
/// a to p, b behind it.
MS_INLINE void store_bf16_pair(uint16_t* p, F16 a, F16 b) {
#if defined(MS_ISA_AVX512BF16)
  _mm512_storeu_si512(p, __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(b.v, a.v)));
#else
  store_bf16(p, a);
  store_bf16(p + 16, b);
#endif
}
MS_INLINE void store_bf16_n(uint16_t* p, F16 a, int n) {
  _mm256_mask_storeu_epi16(p, first_n(n).m, narrow_bf16(a));
}

MS_INLINE F16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
MS_INLINE F16 zero() { return {_mm512_setzero_ps()}; }
MS_INLINE F16 add(F16 a, F16 b) { return {_mm512_add_ps(a.v, b.v)}; }
MS_INLINE F16 sub(F16 a, F16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
MS_INLINE F16 mul(F16 a, F16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
MS_INLINE F16 div(F16 a, F16 b) { return {_mm512_div_ps(a.v, b.v)}; }
MS_INLINE F16 sqrt(F16 a) { return {_mm512_sqrt_ps(a.v)}; }
MS_INLINE F16 fma(F16 a, F16 b, F16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
MS_INLINE F16 fnma(F16 a, F16 b, F16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
MS_INLINE F16 neg(F16 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
MS_INLINE F16 abs(F16 a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
MS_INLINE F16 max(F16 a, F16 b) { return {_mm512_max_ps(a.v, b.v)}; }
MS_INLINE F16 min(F16 a, F16 b) { return {_mm512_min_ps(a.v, b.v)}; }

MS_INLINE M16 lt(F16 a, F16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
MS_INLINE M16 le(F16 a, F16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
MS_INLINE M16 eq(F16 a, F16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
MS_INLINE M16 is_nan(F16 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
MS_INLINE M16 mask_and(M16 a, M16 b) { return {static_cast<__mmask16>(a.m & b.m)}; }
MS_INLINE M16 mask_or(M16 a, M16 b) { return {static_cast<__mmask16>(a.m | b.m)}; }
MS_INLINE M16 mask_not(M16 a) { return {static_cast<__mmask16>(~a.m)}; }
MS_INLINE bool any(M16 m) { return m.m != 0; }
MS_INLINE F16 select(M16 m, F16 a, F16 b) { return {_mm512_mask_blend_ps(m.m, b.v, a.v)}; }

MS_INLINE I16 iset(int32_t x) { return {_mm512_set1_epi32(x)}; }
MS_INLINE I16 iload(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
MS_INLINE void istore(int32_t* p, I16 a) { _mm512_storeu_si512(p, a.v); }
MS_INLINE I16 round_to_int(F16 a) { return {_mm512_cvtps_epi32(a.v)}; }
MS_INLINE F16 to_float(I16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
MS_INLINE I16 bits(F16 a) { return {_mm512_castps_si512(a.v)}; }
MS_INLINE F16 from_bits(I16 a) { return {_mm512_castsi512_ps(a.v)}; }
MS_INLINE I16 iadd(I16 a, I16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
MS_INLINE I16 isub(I16 a, I16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
MS_INLINE I16 iand(I16 a, I16 b) { return {_mm512_and_si512(a.v, b.v)}; }
MS_INLINE I16 ior(I16 a, I16 b) { return {_mm512_or_si512(a.v, b.v)}; }
MS_INLINE I16 ixor(I16 a, I16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
MS_INLINE I16 load_bytes_n(const uint8_t* p, int n) {
  return {_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first_n(n).m, p))};
}
MS_INLINE void store_bytes_n(uint8_t* p, I16 a, int n) {
  _mm_mask_storeu_epi8(p, first_n(n).m, _mm512_cvtepi32_epi8(a.v));
}
MS_INLINE F16 gather(const float* table, I16 at) { return {_mm512_i32gather_ps(at.v, table, 4)}; }
/// The low and high words of the products of unsigned lanes.
MS_INLINE void imul_wide(I16 a, uint32_t b, I16& low, I16& high) {
  const __m512i y = _mm512_set1_epi32(static_cast<int>(b));
  const __m512i even = _mm512_mul_epu32(a.v, y);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), y);
  low = {_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32))};
  high = {_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd)};
}
template <int N>
MS_INLINE I16 shl(I16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
MS_INLINE I16 shr(I16 a) {
  return {_mm512_srli_epi32(a.v, N)};
}
template <int N>
MS_INLINE I16 sar(I16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}
MS_INLINE M16 ieq(I16 a, I16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
MS_INLINE M16 igt(I16 a, I16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
MS_INLINE I16 iselect(M16 m, I16 a, I16 b) { return {_mm512_mask_blend_epi32(m.m, b.v, a.v)}; }

MS_INLINE float sum(F16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
MS_INLINE float max_lane(F16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

MS_INLINE P16 load_pairs(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
MS_INLINE P16 load_pairs_n(const uint32_t* p, int n) {
  return {_mm512_maskz_loadu_epi32(first_n(n).m, p)};
}
MS_INLINE P16 broadcast_pair(uint32_t x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
MS_INLINE P16 pack_pairs(F16 even, F16 odd) {
  const __m512i e = _mm512_cvtepu16_epi32(narrow_bf16(even));
  const __m512i o = _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow_bf16(odd)), 16);
  return {_mm512_or_si512(e, o)};
}
MS_INLINE void store_pairs(uint32_t* p, P16 a) { _mm512_storeu_si512(p, a.v); }
MS_INLINE F16 pair_even(P16 a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
MS_INLINE F16 pair_odd(P16 a) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(a.v, high))};
}
MS_INLINE F16 dot(F16 acc, P16 a, P16 b) {
#if defined(MS_ISA_AVX512BF16)
  return {_mm512_dpbf16_ps(acc.v, __builtin_bit_cast(__m512bh, a.v),
                           __builtin_bit_cast(__m512bh, b.v))};
#else
  acc = fma(pair_odd(a), pair_odd(b), acc);
  return fma(pair_even(a), pair_even(b), acc);
#endif
}

/// Pairs (even[i], odd[i]) of two rows.
MS_INLINE P16 zip_halves(__m256i even, __m256i odd) {
  return {_mm512_or_si512(_mm512_cvtepu16_epi32(even),
                          _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16))};
}
MS_INLINE P16 zip_pairs(const uint16_t* even, const uint16_t* odd) {
  return zip_halves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(even)),
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(odd)));
}
MS_INLINE P16 zip_pairs_n(const uint16_t* even, const uint16_t* odd, int n) {
  return zip_halves(_mm256_maskz_loadu_epi16(first_n(n).m, even),
                    _mm256_maskz_loadu_epi16(first_n(n).m, odd));
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

#include "mainspring/exec/cpu/kernels/simd_words256.h"

// 8 words in one __m256i, for packing: shared by the AVX2 and AVX-512 paths. See simd.h.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

/// 8 words, for packing.
struct U8 {
  __m256i v;
};
MS_INLINE U8 load_words(const void* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
MS_INLINE void store_words(uint32_t* p, U8 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
MS_INLINE U8 upper_halves(U8 a) {
  return {_mm256_and_si256(a.v, _mm256_set1_epi32(static_cast<int>(0xffff0000u)))};
}
MS_INLINE U8 lower_halves_up(U8 a) { return {_mm256_slli_epi32(a.v, 16)}; }
MS_INLINE void transpose_words(U8 (&r)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(r[i].v, r[i + 1].v);
    a[i + 1] = _mm256_unpackhi_epi32(r[i].v, r[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    r[i].v = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    r[i + 4].v = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

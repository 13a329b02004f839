// The 16-lane float vector that every kernel is written with, one trait per instruction-set path.
//
// The one idea: a kernel is one text over F16, I16 and M16; each path compiles it in its own
// translation unit, with its own flags and in its own namespace, and gets the same bits
// (docs/exactness.md, rule 4). A path's unit starts with one #define (MS_ISA_SCALAR, MS_ISA_AVX2,
// MS_ISA_AVX512 or MS_ISA_AVX512BF16), includes this header and then kernel texts, all inside
//   namespace mainspring::cpu::MS_ISA_NAMESPACE { ... }
// Such a unit includes no header of the standard library with templates or inline functions: the
// linker could pick the copy compiled with AVX flags for the rest of the program. <cstdint>,
// <cstddef> are fine. bf16 values are plain uint16_t here.
//
// What each trait offers (n: lanes touched, 0 <= n <= 16; nothing beyond is read or written):
// clang-format off
//   F16   load(const float*), load_n(p, n) (other lanes +0), store(p, F16), store_n(p, F16, n)
//         load_bf16(const uint16_t*), load_bf16_n; store_bf16 (rule 2 rounding), store_bf16_n
//         round_bf16(F16): rounded to bf16 and widened again
//         zero(), broadcast(float), add, sub, mul, div, sqrt, neg, abs
//         fma(a, b, c) = a*b+c, fnma(a, b, c) = -(a*b)+c
//         max(a, b) = a > b ? a : b, min(a, b) = a < b ? a : b (the second if unordered, as maxps)
//   M16   lt, le, eq (false if unordered), is_nan(a), first_n(n), mask_and, mask_or, mask_not; any(M16)
//         F16 select(M16, a, b): m ? a : b
//   I16   round_to_int(F16) (nearest even), to_float(I16), bits(F16), from_bits(I16), iset(int32_t)
//         iadd, isub, iand, ior, ixor, shl<N>, shr<N> (logical), sar<N> (arithmetic)
//         ieq(a, b), igt(a, b) -> M16, iselect(M16, a, b), iload, istore
//         imul_wide(a, uint32_t b, low&, high&): the 64-bit products of unsigned lanes
//         load_bytes_n(const uint8_t*, n) (other lanes 0), store_bytes_n(p, I16, n): a lane's low byte
//         F16 gather(const float* table, I16): table[lane], every lane an index >= 0
//   float sum(F16): ((l0+l8)+(l4+l12)) ... the fixed tree of rule 14; float max_lane(F16)
//   P16   16 pairs of bf16, one pair in 32 bits (low half = even element)
//         load_pairs(const uint32_t*), load_pairs_n, store_pairs, broadcast_pair(uint32_t)
//         pack_pairs(F16 even, F16 odd) (rounded by rule 2)
//         zip_pairs(even_row, odd_row), zip_pairs_n: pair i = (even_row[i], odd_row[i]), bf16 rows
//         F16 pair_even(P16), pair_odd(P16); F16 dot(F16 acc, P16 a, P16 b): rule 4's pair order
//   U8    8 words: load_words, store_words, transpose_words(U8[8]), upper_halves, lower_halves_up
// clang-format on
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define MS_INLINE inline __attribute__((always_inline))

#if defined(MS_ISA_SCALAR)
#define MS_ISA_NAMESPACE scalar
#include "mainspring/exec/cpu/kernels/simd_scalar.h"
#elif defined(MS_ISA_AVX2)
#define MS_ISA_NAMESPACE avx2
#include "mainspring/exec/cpu/kernels/simd_avx2.h"
#elif defined(MS_ISA_AVX512)
#define MS_ISA_NAMESPACE avx512
#include "mainspring/exec/cpu/kernels/simd_avx512.h"
#elif defined(MS_ISA_AVX512BF16)
#define MS_ISA_NAMESPACE avx512bf16
#include "mainspring/exec/cpu/kernels/simd_avx512.h"
#else
#error "define MS_ISA_SCALAR, MS_ISA_AVX2, MS_ISA_AVX512 or MS_ISA_AVX512BF16 before simd.h"
#endif

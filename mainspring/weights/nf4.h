// NF4: 4-bit NormalFloat codes in blocks of 64, their scales quantised a second time.
//
// Layout of a matrix (out, in), in a multiple of 64: blocks in row-major order, each 32 bytes of
// codes (value 2j in the high half of byte j, 2j + 1 in the low half) and one byte with the code of
// its scale. Beside it f32 aux: aux[0] an offset, then one scale per 256 blocks. Value i of block b
// is
//   kNf4Levels[code_i] * (scale_code_b / 255 * aux[1 + b / 256] + aux[0]),
// f32 operations in that order, no fma, then rounded to bf16.
// Source: Dettmers et al. 2023, arXiv:2305.14314, appendix E (the levels), section 3 (double
// quantisation).
#pragma once

#include <cstdint>

#include "mainspring/base/nf4_levels.h"

namespace mainspring {

inline constexpr int64_t kNf4BlockElements = 64;
inline constexpr int64_t kNf4BlockBytes = 33;
inline constexpr int64_t kNf4BlocksPerScale = 256;

}  // namespace mainspring

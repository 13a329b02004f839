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

namespace mainspring {

inline constexpr int64_t kNf4BlockElements = 64;
inline constexpr int64_t kNf4BlockBytes = 33;
inline constexpr int64_t kNf4BlocksPerScale = 256;

/// The levels of codes 0 to 15, in increasing order.
inline constexpr float kNf4Levels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

}  // namespace mainspring

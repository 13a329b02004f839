// bfloat16 as a 16-bit integer, and its two conversions.
//
// The one idea: rounding is round to nearest even with denormals (in and out) to signed zero and
// NaNs quieted, as vcvtneps2bf16 does (docs/exactness.md, rule 2). Every vector path copies this.
#pragma once

#include <bit>
#include <cstdint>

namespace mainspring {

/// Storage of a bfloat16: the upper 16 bits of an f32.
struct bf16 {
  uint16_t bits = 0;
  friend bool operator==(bf16, bf16) = default;
};

/// Exact.
constexpr float to_f32(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

/// Round to nearest even; f32 denormals become zeros of their sign, NaNs are quieted.
constexpr bf16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  if (magnitude < 0x00800000u) return {static_cast<uint16_t>((u >> 16) & 0x8000u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace mainspring

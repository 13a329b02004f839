// IEEE half precision as 16 bits, and its two conversions. Storage only: nothing computes in it.
// Kernel units include this file too, so it uses nothing of the standard library that the linker
// could share between units built with different flags.
#pragma once

#include <cstdint>

namespace mainspring {

/// Exact, denormal halves included (they are normal f32).
[[gnu::always_inline]] constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0)
    return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return __builtin_bit_cast(float, sign);
  const int shift = __builtin_clz(mantissa) - 21;  // makes bit 10 the leading one
  mantissa = (mantissa << shift) & 0x3ffu;
  return __builtin_bit_cast(float,
                            sign | static_cast<uint32_t>(113 - shift) << 23 | mantissa << 13);
}

/// Round to nearest even, to infinity above 65519, denormal halves kept, NaNs quieted.
constexpr uint16_t f32_to_f16(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude >= 0x38800000u) {  // 2^-14: normal halves
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
  }
  if (magnitude <= 0x33000000u) return sign;  // up to 2^-25 the nearest even is zero
  // Denormal: the value in units of 2^-24, its 24-bit mantissa shifted right by 14 to 24 bits.
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - (magnitude >> 23);
  const uint32_t whole = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1u);
  const uint32_t up = rest > half || (rest == half && (whole & 1u) != 0) ? 1u : 0u;
  return static_cast<uint16_t>(sign | (whole + up));
}

}  // namespace mainspring

// exp, log, tanh and what is made of them, on 16 lanes of f32.
//
// The one idea: only + - x / fma and integer shifts, so every path and machine gives the same bits
// (docs/exactness.md, rule 1). exp is within 1.02 ulp of the true value, log within 1, tanh
// within 2.5 (math_test.cc measures all). Included by each path's unit after simd.h.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2, ln 2 = kLn2High + kLn2Low. The
// polynomial is 1 + r + r^2 q(r), q of degree 4 by Chebyshev interpolation: relative error 8e-9
// before rounding.
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2High = 0x1.62e430p-1f;
inline constexpr float kLn2Low = -0x1.05c610p-29f;
// 1.5 * 2^23: adding it leaves round(x) in the low bits of the sum.
inline constexpr float kRounder = 12582912.0f;
// Below: the result is zero, for the smallest normal number is e^-87.3365.
inline constexpr float kExpLow = -87.33f;
// Above: infinity, for the largest number is e^88.72284.
inline constexpr float kExpHigh = 88.72283f;

/// x - n ln 2.
MS_INLINE F16 reduce_exp(F16 x, F16 n) {
  return fnma(n, broadcast(kLn2Low), fnma(n, broadcast(kLn2High), x));
}

/// e^r - 1 for a reduced argument.
MS_INLINE F16 exp_minus_one(F16 r) {
  F16 q = broadcast(0x1.6d110ap-10f);
  q = fma(q, r, broadcast(0x1.120b6ep-7f));
  q = fma(q, r, broadcast(0x1.55551ap-5f));
  q = fma(q, r, broadcast(0x1.5554dcp-3f));
  q = fma(q, r, broadcast(0.5f));
  return fma(mul(r, r), q, r);
}

/// e^x without its special cases: right for kExpLow <= x <= kExpHigh.
MS_INLINE F16 exp_core(F16 x) {
  const F16 t = fma(x, broadcast(kLog2E), broadcast(kRounder));
  const F16 n = sub(t, broadcast(kRounder));
  const F16 p = add(exp_minus_one(reduce_exp(x, n)), broadcast(1.0f));
  return from_bits(iadd(bits(p), shl<23>(bits(t))));
}

/// e^x for x <= 88 (the softmax's use): zero below kExpLow. exp(0) is exactly 1.
MS_INLINE F16 exp_low(F16 x) { return select(lt(x, broadcast(kExpLow)), zero(), exp_core(x)); }

/// e^x for any x but NaN (where it is anything): zero below kExpLow, infinity above kExpHigh.
MS_INLINE F16 exp_not_nan(F16 x) {
  return select(lt(broadcast(kExpHigh), x), from_bits(iset(0x7f800000)), exp_low(x));
}

/// e^x for any x, NaN for NaN.
MS_INLINE F16 exp(F16 x) { return select(is_nan(x), x, exp_not_nan(x)); }

/// Natural logarithm: x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt 2), log(1 + f) = f - f^2/2 +
/// f^3 q(f).
MS_INLINE F16 log(F16 x) {
  const I16 shifted = isub(bits(x), iset(0x3f3504f3));
  const F16 e = to_float(sar<23>(shifted));
  const F16 f =
      sub(from_bits(iadd(iand(shifted, iset(0x007fffff)), iset(0x3f3504f3))), broadcast(1.0f));
  const F16 z = mul(f, f);
  F16 q = broadcast(0.06971611827611923f);
  q = fma(q, f, broadcast(-0.11479733884334564f));
  q = fma(q, f, broadcast(0.11685419827699661f));
  q = fma(q, f, broadcast(-0.12425687164068222f));
  q = fma(q, f, broadcast(0.14249058067798615f));
  q = fma(q, f, broadcast(-0.1666780263185501f));
  q = fma(q, f, broadcast(0.20000715553760529f));
  q = fma(q, f, broadcast(-0.2499999701976776f));
  q = fma(q, f, broadcast(0.3333333134651184f));
  F16 y = mul(mul(f, z), q);
  y = fma(e, broadcast(-2.12194440e-4f),
          y);  // ln 2 = 0.693359375 - 2.1219444e-4, the first part exact
  y = fnma(broadcast(0.5f), z, y);
  y = fma(e, broadcast(0.693359375f), add(f, y));
  const F16 infinity = from_bits(iset(0x7f800000));
  y = select(eq(x, infinity), x, y);
  y = select(eq(x, zero()), neg(infinity), y);
  y = select(lt(x, zero()), from_bits(iset(0x7fc00000)), y);
  return select(is_nan(x), x, y);
}

/// x / (1 + e^-x): NaN for NaN through the numerator.
MS_INLINE F16 silu(F16 x) { return div(x, add(broadcast(1.0f), exp_not_nan(neg(x)))); }

/// Derivative of silu: s (1 + x (1 - s)) with s = 1 / (1 + e^-x); NaN for NaN through the bracket.
MS_INLINE F16 silu_derivative(F16 x) {
  const F16 s = div(broadcast(1.0f), add(broadcast(1.0f), exp_not_nan(neg(x))));
  return mul(s, fma(x, sub(broadcast(1.0f), s), broadcast(1.0f)));
}

/// tanh x = E / (E + 2) with E = e^{2|x|} - 1 = 2^n p + (2^n - 1), so that nothing cancels near
/// zero; from 2|x| = 20 on the quotient is 1. NaN for NaN.
MS_INLINE F16 tanh(F16 x) {
  const F16 limit = broadcast(20.0f);
  F16 y = abs(add(x, x));
  y = select(lt(y, limit), y, limit);
  const F16 t = fma(y, broadcast(kLog2E), broadcast(kRounder));
  const F16 n = sub(t, broadcast(kRounder));
  const F16 p = exp_minus_one(reduce_exp(y, n));
  const F16 power = from_bits(iadd(iset(0x3f800000), shl<23>(bits(t))));
  const F16 e = fma(p, power, sub(power, broadcast(1.0f)));
  const F16 magnitude = div(e, add(e, broadcast(2.0f)));
  return select(is_nan(x), x, select(lt(x, zero()), neg(magnitude), magnitude));
}

/// Twice the argument of the tanh in gelu_tanh: 2 sqrt(2 / pi) (x + 0.044715 x^3).
MS_INLINE F16 gelu_argument(F16 x) {
  const F16 cubic = fma(mul(x, x), broadcast(0.044715f), broadcast(1.0f));
  return mul(mul(x, broadcast(1.5957691216057308f)), cubic);
}

/// The tanh form of gelu, x (1 + tanh(u)) / 2 = x / (1 + e^{-2u}): NaN for NaN through the
/// numerator. Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
MS_INLINE F16 gelu(F16 x) {
  return div(x, add(broadcast(1.0f), exp_not_nan(neg(gelu_argument(x)))));
}

/// Its derivative: s (1 + x (1 - s) 2u') with s = 1 / (1 + e^{-2u}). Beyond 20 it is 0 or 1, and u'
/// must not overflow; NaN for NaN.
MS_INLINE F16 gelu_derivative(F16 x) {
  F16 c = select(lt(x, broadcast(20.0f)), x, broadcast(20.0f));
  c = select(lt(c, broadcast(-20.0f)), broadcast(-20.0f), c);
  const F16 s = div(broadcast(1.0f), add(broadcast(1.0f), exp_not_nan(neg(gelu_argument(c)))));
  const F16 slope =
      mul(fma(mul(c, c), broadcast(0.134145f), broadcast(1.0f)), broadcast(1.5957691216057308f));
  const F16 bracket = fma(mul(c, sub(broadcast(1.0f), s)), slope, broadcast(1.0f));
  return select(is_nan(x), x, mul(s, bracket));
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

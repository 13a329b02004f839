// Elementary functions in f64 that give the same bits on every machine.
//
// The one idea: libm picks variants at run time, so tables (rotary angles) and schedules that reach
// state are computed here from + - x / and fma only (docs/exactness.md, rule 1). Accurate to a few
// units in the last place; not for kernels, which have their own f32 vector versions
// (exec/cpu/kernels/math.h).
#pragma once

namespace mainspring {

/// e^x. Overflows to infinity above 709.78, underflows to zero below -708; NaN stays NaN.
double exact_exp(double x);

/// Natural logarithm of a normal x; -infinity at zero, NaN below zero.
double exact_log(double x);

/// base^exponent = exp(exponent * log(base)) for base > 0; relative error about |exponent log base|
/// * 2^-52.
double exact_pow(double base, double exponent);

/// Sine and cosine for |x| <= 1e8, absolute error below 1e-15 up to 1e6.
double exact_sin(double x);
double exact_cos(double x);

}  // namespace mainspring

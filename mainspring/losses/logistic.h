// Logarithms and sigmoids that keep their digits near 0 and 1, from base/'s exact functions.
//
// The one idea: losses over log-probabilities meet log(1 + e) and e^x - 1 with tiny results; the
// rounding of 1 + e is undone here once (Kahan's quotient), so no loss has to think of it.
#pragma once

namespace mainspring {

/// log(1 + x) for x > -1; relative error a few units in the last place.
double exact_log1p(double x);

/// e^x - 1.
double exact_expm1(double x);

/// 1 / (1 + e^-x), without overflow.
double sigmoid(double x);

/// log sigmoid(x), without overflow; its derivative is sigmoid(-x).
double log_sigmoid(double x);

}  // namespace mainspring

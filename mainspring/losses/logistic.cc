#include "mainspring/losses/logistic.h"

#include "mainspring/base/elementary.h"

namespace mainspring {

double exact_log1p(double x) {
  const double sum = 1.0 + x;
  // sum - 1 is exact, and is what the logarithm was taken of; x is what it should have been.
  return sum == 1.0 ? x : exact_log(sum) * (x / (sum - 1.0));
}

double exact_expm1(double x) {
  const double power = exact_exp(x);
  if (power == 1.0) return x;
  if (x < -1.0 || x > 1.0) return power - 1.0;
  return (power - 1.0) * (x / exact_log(power));
}

double sigmoid(double x) {
  if (x >= 0.0) return 1.0 / (1.0 + exact_exp(-x));
  const double power = exact_exp(x);
  return power / (1.0 + power);
}

double log_sigmoid(double x) {
  return x >= 0.0 ? -exact_log1p(exact_exp(-x)) : x - exact_log1p(exact_exp(x));
}

}  // namespace mainspring

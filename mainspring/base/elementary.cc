#include "mainspring/base/elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mainspring {
namespace {

constexpr double kLn2High = 0x1.62e42fefa39efp-1;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kLog2E = 0x1.71547652b82fep+0;
// pi/2 as a sum of three doubles.
constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
constexpr double kHalfPiMiddle = 0x1.1a62633145c07p-54;
constexpr double kHalfPiLow = -0x1.f1976b7ed8fbcp-110;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// Adding and subtracting it rounds |x| < 2^51 to the nearest integer.
constexpr double kRounder = 0x1.8p+52;

double round_to_integer(double x) { return (x + kRounder) - kRounder; }

// sin and cos of r in [-pi/4, pi/4] by their Taylor series; the first dropped term is below 1e-19.
double sin_series(double r) {
  const double s = r * r;
  double sum = 1.0;
  for (int k = 18; k >= 2; k -= 2) sum = std::fma(-s / (k * (k + 1.0)), sum, 1.0);
  return r * sum;
}

double cos_series(double r) {
  const double s = r * r;
  double sum = 1.0;
  for (int k = 19; k >= 1; k -= 2) sum = std::fma(-s / (k * (k + 1.0)), sum, 1.0);
  return sum;
}

struct Reduced {
  double r = 0.0;
  unsigned quadrant = 0;
};

Reduced reduce_angle(double x) {
  const double n = round_to_integer(x * kTwoOverPi);
  double r = std::fma(-n, kHalfPiHigh, x);
  r = std::fma(-n, kHalfPiMiddle, r);
  r = std::fma(-n, kHalfPiLow, r);
  return {r, static_cast<unsigned>(static_cast<int64_t>(n) & 3)};
}

}  // namespace

double exact_exp(double x) {
  if (x != x) return x;
  if (x > 709.78) return std::numeric_limits<double>::infinity();
  if (x < -708.0) return 0.0;
  const double n = round_to_integer(x * kLog2E);
  const double r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = std::fma(r / k, sum, 1.0);
  const auto exponent =
      static_cast<int64_t>(n);  // in [-1022, 1024]: two steps keep both factors normal
  const int64_t half = exponent / 2;
  const double a = std::bit_cast<double>(static_cast<uint64_t>(half + 1023) << 52);
  const double b = std::bit_cast<double>(static_cast<uint64_t>(exponent - half + 1023) << 52);
  return (sum * a) * b;
}

double exact_log(double x) {
  if (x != x || x < 0.0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0.0) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 atanh(s); s^2 < 0.0295, so 12 terms reach 1e-20.
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 3; k -= 2) sum = s2 * (sum + 1.0 / k);
  const double e = static_cast<double>(exponent);
  return std::fma(e, kLn2High, std::fma(2.0 * s, sum, std::fma(e, kLn2Low, 2.0 * s)));
}

double exact_pow(double base, double exponent) { return exact_exp(exponent * exact_log(base)); }

double exact_sin(double x) {
  const Reduced a = reduce_angle(x);
  const double value = (a.quadrant & 1u) != 0 ? cos_series(a.r) : sin_series(a.r);
  return (a.quadrant & 2u) != 0 ? -value : value;
}

double exact_cos(double x) {
  const Reduced a = reduce_angle(x);
  const double value = (a.quadrant & 1u) != 0 ? sin_series(a.r) : cos_series(a.r);
  return ((a.quadrant + 1u) & 2u) != 0 ? -value : value;
}

}  // namespace mainspring

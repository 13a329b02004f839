#include "mainspring/base/elementary.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace mainspring {
namespace {

// libm is correct to an ulp here; ours to a few.
constexpr double kEps = 0x1p-52;

TEST(ElementaryTest, ExpAgreesWithLibmToFourUlp) {
  for (double x = -700.0; x < 709.0; x += 0.37) {
    EXPECT_NEAR(exact_exp(x) / std::exp(x), 1.0, 4 * kEps) << x;
  }
  EXPECT_EQ(exact_exp(0.0), 1.0);
}

TEST(ElementaryTest, ExpSaturatesAtBothEnds) {
  EXPECT_EQ(exact_exp(1000.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(exact_exp(-1000.0), 0.0);
  EXPECT_TRUE(std::isnan(exact_exp(std::numeric_limits<double>::quiet_NaN())));
}

TEST(ElementaryTest, LogAgreesWithLibmToFourUlp) {
  for (double x = 1e-300; x < 1e300; x *= 1.7) {
    EXPECT_NEAR(exact_log(x), std::log(x), 4 * kEps * std::fabs(std::log(x))) << x;
  }
  for (double x = 0.5; x < 2.0; x += 0.00137) {
    EXPECT_NEAR(exact_log(x), std::log(x), 4 * kEps * std::fabs(std::log(x))) << x;
  }
  EXPECT_EQ(exact_log(1.0), 0.0);
  EXPECT_EQ(exact_log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(exact_log(-1.0)));
}

TEST(ElementaryTest, PowAgreesWithLibm) {
  for (double y = 0.0; y <= 1.0; y += 1.0 / 64) {
    EXPECT_NEAR(exact_pow(1e6, y) / std::pow(1e6, y), 1.0, 40 * kEps)
        << y;  // |y log 1e6| = 13.8 ulp
  }
}

TEST(ElementaryTest, SineAndCosineAgreeWithLibm) {
  for (double x = -3e5; x < 3e5; x += 17.313) {
    EXPECT_NEAR(exact_sin(x), std::sin(x), 4 * kEps) << x;
    EXPECT_NEAR(exact_cos(x), std::cos(x), 4 * kEps) << x;
  }
  for (double x = -7.0; x < 7.0; x += 0.0173) {
    EXPECT_NEAR(exact_sin(x), std::sin(x), 2 * kEps) << x;
    EXPECT_NEAR(exact_cos(x), std::cos(x), 2 * kEps) << x;
  }
  EXPECT_EQ(exact_sin(0.0), 0.0);
  EXPECT_EQ(exact_cos(0.0), 1.0);
}

}  // namespace
}  // namespace mainspring

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/kernels/rows_table.h"
#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

using Function = std::function<void(const float*, int64_t, float*)>;

Function exp_of(Isa isa) { return kernel_table(isa).rows->f32.exp; }
Function log_of(Isa isa) { return kernel_table(isa).rows->f32.log; }

/// The cap at 1.
Function tanh_of(Isa isa) {
  return [cap = kernel_table(isa).rows->f32.soft_cap](const float* x, int64_t n, float* y) {
    cap(x, n, 1.0f, y);
  };
}

float call(const Function& f, float x) {
  const ComputeScope scope;
  float y = 0.0f;
  f(&x, 1, &y);
  return y;
}

/// Largest error in units of the true value's last place over floats `step` bit patterns apart.
double max_ulp(const Function& f, double (*truth)(double), float low, float high, uint32_t step) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (1ULL << 32); bits += step) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (value >= low && value <= high && (value == 0.0f || std::isnormal(value)))
      x.push_back(value);
  }
  std::vector<float> y(x.size());
  {
    const ComputeScope scope;
    f(x.data(), static_cast<int64_t>(x.size()), y.data());
  }
  double worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = truth(x[i]);
    int exponent = 0;
    std::frexp(expected, &exponent);
    const double ulp = std::ldexp(1.0, exponent - 24);
    worst = std::max(worst, std::fabs(y[i] - expected) / ulp);
  }
  return worst;
}

TEST(KernelMathTest, ExpIsWithin102HundredthsOfAnUlp) {
  for (const Isa isa : test_paths()) {
    const double worst =
        max_ulp(exp_of(isa), [](double x) { return std::exp(x); }, -87.33f, 88.7228f, 977);
    EXPECT_LT(worst, 1.02) << isa_name(isa);
  }
}

TEST(KernelMathTest, TanhIsWithinTwoAndAHalfUlp) {
  for (const Isa isa : test_paths()) {
    const double worst =
        max_ulp(tanh_of(isa), [](double x) { return std::tanh(x); }, -30.0f, 30.0f, 977);
    EXPECT_LT(worst, 2.5) << isa_name(isa);
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(call(tanh_of(isa), 0.0f), 0.0f);
    EXPECT_EQ(call(tanh_of(isa), infinity), 1.0f);
    EXPECT_EQ(call(tanh_of(isa), -infinity), -1.0f);
    EXPECT_TRUE(std::isnan(call(tanh_of(isa), std::numeric_limits<float>::quiet_NaN())));
  }
}

TEST(KernelMathTest, LogIsWithinOneUlp) {
  for (const Isa isa : test_paths()) {
    const double worst = max_ulp(
        log_of(isa), [](double x) { return std::log(x); }, std::numeric_limits<float>::min(), 3e38f,
        977);
    EXPECT_LT(worst, 1.0) << isa_name(isa);
  }
}

TEST(KernelMathTest, ExpHandlesItsEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Isa isa : test_paths()) {
    EXPECT_EQ(call(exp_of(isa), 0.0f), 1.0f);
    EXPECT_EQ(call(exp_of(isa), -0.0f), 1.0f);
    EXPECT_EQ(call(exp_of(isa), -infinity), 0.0f);
    EXPECT_EQ(call(exp_of(isa), -87.34f), 0.0f);
    EXPECT_EQ(call(exp_of(isa), -3e38f), 0.0f);
    EXPECT_EQ(call(exp_of(isa), 88.8f), infinity);
    EXPECT_EQ(call(exp_of(isa), infinity), infinity);
    EXPECT_TRUE(std::isnan(call(exp_of(isa), std::numeric_limits<float>::quiet_NaN())));
  }
}

TEST(KernelMathTest, LogHandlesItsEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Isa isa : test_paths()) {
    EXPECT_EQ(call(log_of(isa), 1.0f), 0.0f);
    EXPECT_EQ(call(log_of(isa), 0.0f), -infinity);
    EXPECT_EQ(call(log_of(isa), infinity), infinity);
    EXPECT_TRUE(std::isnan(call(log_of(isa), -1.0f)));
    EXPECT_TRUE(std::isnan(call(log_of(isa), std::numeric_limits<float>::quiet_NaN())));
  }
}

TEST(KernelMathTest, PathsGiveTheSameBits) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (1ULL << 32); bits += 1009) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const auto of : {exp_of, log_of, tanh_of}) {
    std::vector<std::vector<float>> results;
    for (const Isa isa : test_paths()) {
      const ComputeScope scope;
      results.emplace_back(x.size());
      of(isa)(x.data(), static_cast<int64_t>(x.size()), results.back().data());
    }
    for (size_t path = 1; path < results.size(); ++path) {
      EXPECT_EQ(std::memcmp(results[path].data(), results[0].data(), x.size() * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace mainspring::cpu

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

TEST(RowStatsTest, LogSumExpAgreesWithF64OnEveryPath) {
  ThreadPool pool(1);
  for (const int64_t n : {1, 15, 16, 17, 127, 128, 129, 300, 49152}) {
    const Values x = Values::random(DType::kF32, n, 5, 20.0f);
    const auto* logits = static_cast<const float*>(x.data());
    const RowStats scalar = row_stats(make_context(Isa::kScalar, pool, DType::kBF16), logits, n);
    double top = -1e300;
    double total = 0.0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, x.get(i));
    for (int64_t i = 0; i < n; ++i) total += std::exp(x.get(i) - top);
    EXPECT_EQ(scalar.max, top);
    EXPECT_NEAR(scalar.sum, total, 16 * 0x1p-24 * total);
    EXPECT_NEAR(scalar.lse, top + std::log(total), 4 * 0x1p-24 * (20 + std::log(total)));
    for (const Isa isa : test_paths()) {
      const Context context = make_context(isa, pool, DType::kBF16);
      const RowStats stats = row_stats(context, logits, n);
      EXPECT_EQ(stats.max, scalar.max);
      EXPECT_EQ(stats.sum, scalar.sum);
      EXPECT_EQ(stats.lse, scalar.lse);
    }
  }
}

TEST(RowStatsTest, SumIsTheTreeOfEightSegmentsOf16Lanes) {
  ThreadPool pool(1);
  const int64_t n = 300;  // segments of 48: six whole ones, one of 12, an empty one
  const Values x = Values::random(DType::kF32, n, 9, 5.0f);
  const auto* logits = static_cast<const float*>(x.data());
  const Context context = make_context(test_paths().back(), pool, DType::kF32);
  const RowStats stats = row_stats(context, logits, n);
  std::vector<float> e(static_cast<size_t>(n));
  row_exp(context, logits, n, stats.max, e.data());
  float sums[8] = {};
  for (int64_t s = 0; s < 8; ++s) {
    float lanes[16] = {};
    for (int64_t i = s * 48; i < std::min(n, s * 48 + 48); ++i)
      lanes[i % 16] += e[static_cast<size_t>(i)];
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    sums[s] = lanes[0];
  }
  EXPECT_EQ(stats.sum, ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                           ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}

TEST(RowStatsTest, MaskedLogitsHaveProbabilityZero) {
  ThreadPool pool(1);
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  const std::vector<float> x = {minus_infinity, 1.0f, minus_infinity};
  for (const Isa isa : test_paths()) {
    const Context context = make_context(isa, pool, DType::kF32);
    const RowStats stats = row_stats(context, x.data(), 3);
    EXPECT_EQ(stats.lse, 1.0f);
    std::vector<float> p(3);
    row_exp(context, x.data(), 3, stats.max, p.data());
    EXPECT_EQ(p, (std::vector<float>{0.0f, 1.0f, 0.0f}));
  }
}

TEST(RowStatsTest, ScalarFunctionsEqualTheVectorOnes) {
  ThreadPool pool(1);
  const Values x = Values::random(DType::kF32, 33, 5, 10.0f);
  const auto* values = static_cast<const float*>(x.data());
  for (const Isa isa : test_paths()) {
    const Context context = make_context(isa, pool, DType::kF32);
    std::vector<float> y(33);
    row_exp(context, values, 33, 0.0f, y.data());
    for (size_t i = 0; i < 33; ++i) EXPECT_EQ(exp_f32(context, values[i]), y[i]);
    EXPECT_EQ(log_f32(context, 1.0f), 0.0f);
    EXPECT_NEAR(log_f32(context, 10.0f), std::log(10.0), 0x1p-22);
  }
}

}  // namespace
}  // namespace mainspring::cpu

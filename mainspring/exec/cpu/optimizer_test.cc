#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

struct State {
  Values p, m, v;
  friend bool operator==(const State&, const State&) = default;
};

float* floats(Values& x) { return static_cast<float*>(x.data()); }
const float* floats(const Values& x) { return static_cast<const float*>(x.data()); }

TEST(OptimizerTest, AdamwFollowsTorchOverThreeSteps) {
  for (const int64_t n : {1, 17, 40000}) {
    const State start{Values::random(DType::kF32, n, 1, 1.0f), Values(DType::kF32, n),
                      Values(DType::kF32, n)};
    const double lr = 1e-2, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1, scale = 0.5;
    const auto run = [&](Isa isa, int threads) {
      ThreadPool pool(threads);
      const Context context = make_context(isa, pool, DType::kBF16);
      State s = start;
      for (int step = 1; step <= 3; ++step) {
        const Values g = Values::random(DType::kF32, n, static_cast<uint64_t>(10 + step), 1.0f);
        AdamwStep a{};
        a.lr = static_cast<float>(lr);
        a.beta1 = static_cast<float>(beta1);
        a.beta2 = static_cast<float>(beta2);
        a.eps = static_cast<float>(eps);
        a.weight_decay = static_cast<float>(decay);
        a.bias_correction1 = static_cast<float>(1.0 - std::pow(beta1, step));
        a.bias_correction2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, step)));
        a.grad_scale = static_cast<float>(scale);
        adamw(context, n, a, floats(g), floats(s.p), floats(s.m), floats(s.v));
      }
      return s;
    };
    const State got = run(Isa::kScalar, 1);
    for (const Isa isa : test_paths()) {
      EXPECT_EQ(run(isa, 1), got);
      EXPECT_EQ(run(isa, 2), got);
    }
    std::vector<Values> grads;
    for (uint64_t step = 1; step <= 3; ++step) {
      grads.push_back(Values::random(DType::kF32, n, 10 + step, 1.0f));
    }
    for (int64_t i = 0; i < n; ++i) {
      double p = start.p.get(i);
      double m = 0.0;
      double v = 0.0;
      for (int step = 1; step <= 3; ++step) {
        const double grad = grads[static_cast<size_t>(step - 1)].get(i) * scale;
        p *= 1.0 - lr * decay;
        m = beta1 * m + (1.0 - beta1) * grad;
        v = beta2 * v + (1.0 - beta2) * grad * grad;
        p -= lr / (1.0 - std::pow(beta1, step)) * m /
             (std::sqrt(v) / std::sqrt(1.0 - std::pow(beta2, step)) + eps);
      }
      // 1 - beta2 in f32 is off by 3e-5 relative, which the update (1e-2) carries at half its size.
      ASSERT_NEAR(got.p.get(i), p, 3e-5 * 3e-2 + 16 * 0x1p-24);
    }
  }
}

TEST(OptimizerTest, SumOfSquaresAgreesWithF64AndAcrossPaths) {
  for (const int64_t rows : {0, 1, 3, 129}) {
    for (const int64_t columns : {1, 17, 300, 1536}) {
      const Values x = Values::random(DType::kF32, rows * columns, 1, 1.0f);
      const auto run = [&](Isa isa, int threads) {
        ThreadPool pool(threads);
        std::vector<float> scratch(sum_of_squares_scratch_bytes(rows) / sizeof(float) + 1);
        return sum_of_squares(make_context(isa, pool, DType::kBF16), rows, columns, floats(x),
                              scratch.data());
      };
      const float got = run(Isa::kScalar, 1);
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(run(isa, 1), got);
        EXPECT_EQ(run(isa, 2), got);
      }
      double expected = 0.0;
      for (int64_t i = 0; i < x.size(); ++i) expected += x.get(i) * x.get(i);
      EXPECT_NEAR(got, expected, 16 * 0x1p-24 * expected);
    }
  }
}

}  // namespace
}  // namespace mainspring::cpu

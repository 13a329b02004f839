// Optimizer states in 8 bits and in bf16: codes, roundings, and steps against the written formulas
// in f64.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/base/dynamic_map.h"
#include "mainspring/exec/cpu/rows_of.h"
#include "mainspring/exec/cpu/rows_test_util.h"
#include "mainspring/ir/graph.h"

namespace mainspring::cpu {
namespace {

constexpr AdamwStep kStep{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.25f, 0.5f};

float* floats(Values& x) { return static_cast<float*>(x.data()); }
const float* floats(const Values& x) { return static_cast<const float*>(x.data()); }
bf16* halves(Values& x) { return static_cast<bf16*>(x.data()); }

// The paper's formula, apart from base/dynamic_map.h: middles of equal parts of seven decades.
std::vector<double> formula_levels(bool is_signed) {
  std::vector<double> levels{0.0, 1.0};
  for (int d = 0; d < 7; ++d) {
    const int parts = (is_signed ? 1 : 2) << d;
    for (int j = 0; j < parts; ++j) {
      const double low = 0.1 + 0.9 * j / parts;
      const double high = 0.1 + 0.9 * (j + 1) / parts;
      const double level = std::pow(10.0, d - 6) * (low + high) / 2;
      levels.push_back(level);
      if (is_signed) levels.push_back(-level);
    }
  }
  std::sort(levels.begin(), levels.end());
  return levels;
}

TEST(DynamicMap, HasTheLevelsOfThePaper) {
  for (const bool is_signed : {true, false}) {
    const DynamicMap& map = is_signed ? kSignedMap : kUnsignedMap;
    const std::vector<double> expected = formula_levels(is_signed);
    ASSERT_EQ(expected.size(), map.levels.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(map.levels[i]), expected[i],
                  0x1p-23 * std::abs(expected[i]) + 1e-15);
      EXPECT_EQ(dynamic_code(map, map.levels[i]), i);
    }
  }
}

struct Coded {
  std::vector<uint8_t> codes;
  std::vector<float> largest;
  explicit Coded(int64_t n)
      : codes(static_cast<size_t>(n)),
        largest(static_cast<size_t>((n + kMomentBlock - 1) / kMomentBlock)) {}
  CodedMoment moment() { return {codes.data(), largest.data()}; }
  double value(const std::vector<double>& levels, size_t i) const {
    return levels[codes[i]] * static_cast<double>(largest[i / kMomentBlock]);
  }
  friend bool operator==(const Coded&, const Coded&) = default;
};

struct State {
  Values param;
  Coded m, v;
  friend bool operator==(const State&, const State&) = default;
};

// Gradients whose magnitudes spread over five decades, and some zeros.
Values gradient(int64_t n, uint64_t seed) {
  Values g = Values::random(DType::kF32, n, seed, 1.0f);
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(g.get(i));
    g.set(i, i % 7 == 3 ? 0.0f : x * x * x * x * x);
  }
  return g;
}

// |level - y| is least among all levels, or so near to it that f32 could not tell.
void expect_nearest(const std::vector<double>& levels, uint8_t code, double y) {
  double least = HUGE_VAL;
  for (double level : levels) least = std::min(least, std::abs(level - y));
  ASSERT_LE(std::abs(levels[code] - y), least + 0x1p-20 * std::abs(y) + 2e-8)
      << "code " << int{code};
}

// Twenty steps; each is the formula in f64 from the state before it.
TEST(Adamw8bit, EachStepIsTheWrittenFormula) {
  const std::vector<double> m_levels = formula_levels(true);
  const std::vector<double> v_levels = formula_levels(false);
  const auto f64 = [](float x) { return static_cast<double>(x); };
  for (const int64_t n : {1, 255, 700}) {
    ThreadPool pool(1);
    const Context context = make_context(Isa::kScalar, pool, DType::kF32);
    State s{Values::random(DType::kF32, n, 1, 1.0f), Coded(n), Coded(n)};
    for (uint64_t t = 1; t <= 20; ++t) {
      const State before = s;
      const Values g = gradient(n, 10 + t);
      adamw_8bit(context, n, kStep, floats(g), floats(s.param), s.m.moment(), s.v.moment());
      std::vector<double> m(static_cast<size_t>(n)), v(static_cast<size_t>(n));
      for (size_t i = 0; i < m.size(); ++i) {
        const double grad = g.get(static_cast<int64_t>(i)) * 0.5;
        m[i] = f64(kStep.beta1) * before.m.value(m_levels, i) + (1 - f64(kStep.beta1)) * grad;
        v[i] =
            f64(kStep.beta2) * before.v.value(v_levels, i) + (1 - f64(kStep.beta2)) * grad * grad;
        const double step = f64(kStep.lr) / 0.1f * m[i] / (std::sqrt(v[i]) / 0.25 + 1e-8);
        const double p = before.param.get(static_cast<int64_t>(i)) * (1 - 1e-2 * 0.1) - step;
        ASSERT_NEAR(s.param.get(static_cast<int64_t>(i)), p, 1e-5 * std::abs(step) + 0x1p-22);
      }
      for (size_t begin = 0; begin < m.size(); begin += kMomentBlock) {
        const size_t end = std::min(m.size(), begin + kMomentBlock);
        double m_largest = 0, v_largest = 0;
        for (size_t i = begin; i < end; ++i) {
          m_largest = std::max(m_largest, std::abs(m[i]));
          v_largest = std::max(v_largest, v[i]);
        }
        const size_t block = begin / kMomentBlock;
        ASSERT_NEAR(s.m.largest[block], m_largest, 1e-6 * m_largest);
        ASSERT_NEAR(s.v.largest[block], v_largest, 1e-6 * v_largest);
        for (size_t i = begin; i < end; ++i) {
          if (m_largest > 0) expect_nearest(m_levels, s.m.codes[i], m[i] / m_largest);
          if (v[i] > 0 && s.v.codes[i] == 1) continue;  // never 0
          if (v_largest > 0) expect_nearest(v_levels, s.v.codes[i], v[i] / v_largest);
        }
      }
    }
  }
}

TEST(Adamw8bit, EveryPathAndThreadCountGivesTheSameBits) {
  for (const int64_t n : {1, 17, 300, 40001}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto run = [&](Isa isa, int threads) {
        ThreadPool pool(threads);
        const Context context = make_context(isa, pool, DType::kF32);
        State s{Values::random(dtype, n, 1, 1.0f), Coded(n), Coded(n)};
        for (int32_t t = 1; t <= 3; ++t) {
          const Values g = gradient(n, static_cast<uint64_t>(t));
          if (dtype == DType::kF32) {
            adamw_8bit(context, n, kStep, floats(g), floats(s.param), s.m.moment(), s.v.moment());
          } else {
            adamw_8bit_bf16(context, n, kStep, {77, t}, floats(g), halves(s.param), s.m.moment(),
                            s.v.moment());
          }
        }
        return s;
      };
      const State got = run(Isa::kScalar, 1);
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(run(isa, 1), got);
        EXPECT_EQ(run(isa, 3), got);
      }
    }
  }
}

// An element whose gradient was small and is now zero is not divided by eps alone.
TEST(Adamw8bit, AFadingGradientMovesNothingFar) {
  ThreadPool pool(1);
  const Context context = make_context(Isa::kScalar, pool, DType::kF32);
  const int64_t n = 256;
  State s{Values(DType::kF32, n), Coded(n), Coded(n)};
  Values g(DType::kF32, n);
  for (int64_t i = 0; i < n; ++i) g.set(i, i == 0 ? 1.0f : 1e-5f);
  adamw_8bit(context, n, kStep, floats(g), floats(s.param), s.m.moment(), s.v.moment());
  for (int64_t i = 1; i < n; ++i) {
    g.set(i, 0.0f);
    s.param.set(i, 0.0f);
  }
  adamw_8bit(context, n, kStep, floats(g), floats(s.param), s.m.moment(), s.v.moment());
  for (int64_t i = 1; i < n; ++i) EXPECT_LT(std::abs(s.param.get(i)), 1.0) << i;
}

// Rounds n copies of x as array `which` of a parameter.
std::vector<float> rounded(float x, int64_t n, uint32_t key, int which) {
  ThreadPool pool(1);
  const Context context = make_context(Isa::kScalar, pool, DType::kF32);
  const std::vector<float> values(static_cast<size_t>(n), x);
  std::vector<uint16_t> out[3];
  for (auto& array : out) array.resize(values.size());
  const float* from[3] = {values.data(), values.data(), values.data()};
  uint16_t* to[3] = {out[0].data(), out[1].data(), out[2].data()};
  rows_of(context).round_states(n, {{key, 5}, 0}, 3, from, to);
  std::vector<float> result;
  for (uint16_t bits : out[which]) result.push_back(to_f32(bf16{bits}));
  return result;
}

// The mean of n values, each one of two neighbours a step apart with the right chance, lies within
// 4 standard deviations of x; a standard deviation is at most step / (2 sqrt(n)).
TEST(StochasticRounding, IsUnbiased) {
  const int64_t n = 1 << 18;
  for (const float x : {1.0f + 0x1p-10f, 1.0f + 0x1.8p-8f, -3.14159f, 1e-20f, 0.3333333f}) {
    const float low = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
    const float high = std::bit_cast<float>(std::bit_cast<uint32_t>(low) + 0x10000u);
    const double step = std::abs(static_cast<double>(high) - static_cast<double>(low));
    for (int which = 0; which < 3; ++which) {
      double sum = 0;
      for (const float y : rounded(x, n, 3, which)) {
        ASSERT_TRUE(y == low || y == high) << y;
        sum += static_cast<double>(y);
      }
      EXPECT_NEAR(sum / n, static_cast<double>(x), 4 * step / (2 * std::sqrt(double{n})));
    }
  }
}

TEST(StochasticRounding, LeavesWhatIsBf16AndWhatIsNotFinite) {
  for (const float x : {0.0f, -0.0f, 1.5f, -0x1p-126f, INFINITY, -INFINITY}) {
    for (const float y : rounded(x, 100, 1, 0)) {
      EXPECT_EQ(std::bit_cast<uint32_t>(y), std::bit_cast<uint32_t>(x));
    }
  }
  for (const float y : rounded(NAN, 100, 1, 0)) EXPECT_TRUE(std::isnan(y));
}

// Arrays, keys and elements draw apart: two of them agree in half of the cases.
TEST(StochasticRounding, DrawsApartForEveryArrayKeyAndElement) {
  const int64_t n = 1 << 14;
  const float half = 1.0f + 0x1p-8f;  // up or down with the same chance
  const std::vector<float> first = rounded(half, n, 1, 0);
  const auto agreeing = [&](const std::vector<float>& a, const std::vector<float>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus<>(),
                              [](float x, float y) { return x == y ? 1 : 0; });
  };
  const double slack = 4 * std::sqrt(0.25 * n);
  EXPECT_NEAR(agreeing(first, rounded(half, n, 1, 1)), 0.5 * n, slack);
  EXPECT_NEAR(agreeing(first, rounded(half, n, 1, 2)), 0.5 * n, slack);
  EXPECT_NEAR(agreeing(first, rounded(half, n, 2, 0)), 0.5 * n, slack);
  std::vector<float> later = first;
  std::rotate(later.begin(), later.begin() + 16, later.end());
  EXPECT_NEAR(agreeing(first, later), 0.5 * n, slack);
}

struct HalfState {
  Values param, m, v;
  friend bool operator==(const HalfState&, const HalfState&) = default;
};

// Each stored value is one of the two bf16 around the formula's in f64.
TEST(AdamwBf16, EachStepIsTheWrittenFormulaRoundedUpOrDown) {
  const auto f64 = [](float x) { return static_cast<double>(x); };
  ThreadPool pool(2);
  const Context context = make_context(Isa::kScalar, pool, DType::kF32);
  const int64_t n = 700;
  HalfState s{Values::random(DType::kBF16, n, 1, 1.0f), Values(DType::kBF16, n),
              Values(DType::kBF16, n)};
  for (int32_t t = 1; t <= 10; ++t) {
    const HalfState before = s;
    const Values g = gradient(n, static_cast<uint64_t>(t));
    adamw_bf16(context, n, kStep, {9, t}, floats(g), halves(s.param), halves(s.m), halves(s.v));
    for (int64_t i = 0; i < n; ++i) {
      const double grad = g.get(i) * 0.5;
      const double m = f64(kStep.beta1) * before.m.get(i) + (1 - f64(kStep.beta1)) * grad;
      const double v = f64(kStep.beta2) * before.v.get(i) + (1 - f64(kStep.beta2)) * grad * grad;
      const double step = f64(kStep.lr) / 0.1f * m / (std::sqrt(v) / 0.25 + 1e-8);
      const double p = before.param.get(i) * (1 - 1e-2 * 0.1) - step;
      // Less than a step of bf16 (2^-7 of the value at most), and what f32 adds.
      ASSERT_LE(std::abs(s.m.get(i) - m), 0x1.01p-7 * std::abs(m) + 1e-12);
      ASSERT_LE(std::abs(s.v.get(i) - v), 0x1.01p-7 * std::abs(v) + 1e-12);
      ASSERT_LE(std::abs(s.param.get(i) - p), 0x1.01p-7 * std::abs(p) + 1e-4 * std::abs(step));
    }
  }
}

TEST(AdamwBf16, EveryPathAndThreadCountGivesTheSameBits) {
  for (const int64_t n : {1, 17, 31, 32, 33, 40001}) {
    const auto run = [&](Isa isa, int threads, bool lion_too) {
      ThreadPool pool(threads);
      const Context context = make_context(isa, pool, DType::kF32);
      HalfState s{Values::random(DType::kBF16, n, 1, 1.0f), Values(DType::kBF16, n),
                  Values(DType::kBF16, n)};
      for (int32_t t = 1; t <= 3; ++t) {
        const Values g = gradient(n, static_cast<uint64_t>(t));
        adamw_bf16(context, n, kStep, {9, t}, floats(g), halves(s.param), halves(s.m), halves(s.v));
        if (!lion_too) continue;
        lion_bf16(context, n, {1e-2f, 0.9f, 0.99f, 0.1f, 0.5f}, {10, t}, floats(g), halves(s.param),
                  halves(s.m));
      }
      return s;
    };
    for (const bool lion_too : {false, true}) {
      const HalfState got = run(Isa::kScalar, 1, lion_too);
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(run(isa, 1, lion_too), got);
        EXPECT_EQ(run(isa, 3, lion_too), got);
      }
    }
  }
}

// A change of a hundredth of a bf16 step per step is kept in the mean; rounding to nearest would
// lose all of it.
TEST(AdamwBf16, SmallStepsAreNotLost) {
  ThreadPool pool(1);
  const Context context = make_context(Isa::kScalar, pool, DType::kF32);
  const int64_t n = 4096;
  HalfState s{Values(DType::kBF16, n), Values(DType::kBF16, n), Values(DType::kBF16, n)};
  Values g(DType::kF32, n);
  for (int64_t i = 0; i < n; ++i) {
    s.param.set(i, 1.5f);
    g.set(i, 1.0f);
  }
  AdamwStep step = kStep;
  step.lr = 0x1p-7f / 100;
  step.beta1 = 0.0f;
  step.beta2 = 0.0f;
  step.weight_decay = 0.0f;
  step.bias_correction1 = step.bias_correction2_sqrt = step.grad_scale = 1.0f;
  for (int32_t t = 1; t <= 200; ++t) {
    adamw_bf16(context, n, step, {1, t}, floats(g), halves(s.param), halves(s.m), halves(s.v));
  }
  const std::vector<double> values = s.param.to_f64();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  EXPECT_NEAR(mean, 1.5 - 2 * 0x1p-7, 0.1 * 0x1p-7);  // a standard deviation: 0.02 steps
}

TEST(Ema, MovesByTheRateOnEveryPath) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t n : {1, 17, 40001}) {
      const Values start = Values::random(DType::kF32, n, 1, 1.0f);
      const Values param = Values::random(dtype, n, 2, 1.0f);
      const auto run = [&](Isa isa, int threads) {
        ThreadPool pool(threads);
        Values average = start;
        ema(make_context(isa, pool, dtype), n, 0.125f, param.data(), floats(average));
        return average;
      };
      const Values got = run(Isa::kScalar, 1);
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(run(isa, 1), got);
        EXPECT_EQ(run(isa, 2), got);
      }
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_NEAR(got.get(i), start.get(i) + 0.125 * (param.get(i) - start.get(i)), 4 * 0x1p-24);
      }
    }
  }
}

}  // namespace
}  // namespace mainspring::cpu

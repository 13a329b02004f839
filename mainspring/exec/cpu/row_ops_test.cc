#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

/// Runs an operation on every path with 1 and 2 threads and checks that all results are the scalar
/// one's.
template <typename F>
auto same_on_every_path(DType dtype, F run) {
  ThreadPool one(1);
  ThreadPool two(2);
  const auto scalar = run(make_context(Isa::kScalar, one, dtype));
  for (const Isa isa : test_paths()) {
    EXPECT_EQ(run(make_context(isa, one, dtype)), scalar) << isa_name(isa);
    EXPECT_EQ(run(make_context(isa, two, dtype)), scalar) << isa_name(isa) << " with 2 threads";
  }
  return scalar;
}

constexpr DType kDtypes[] = {DType::kBF16, DType::kF32};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// One rounding of the value to the dtype, plus a few f32 roundings of its parts.
void expect_rounded(DType dtype, double got, double expected, double size) {
  EXPECT_NEAR(got, expected, unit_roundoff(dtype) * std::fabs(expected) + 8 * 0x1p-24 * size);
}

void expect_rms_norm(bool plus_one) {
  for (const DType dtype : kDtypes) {
    for (const int64_t width : {1, 8, 15, 17, 64, 576}) {
      const int64_t rows = 5;
      const int64_t groups = 3;
      const Values x = Values::random(dtype, rows * groups * width, 1, 3.0f);
      const Values w = Values::random(dtype, width, 2, 1.0f);
      const Values y = same_on_every_path(dtype, [&](const Context& context) {
        Values out(dtype, x.size());
        rms_norm_forward(context, {groups * width, width, 1e-5f, plus_one}, rows, x.data(),
                         w.data(), out.data());
        return out;
      });
      for (int64_t group = 0; group < rows * groups; ++group) {
        double squares = 0.0;
        for (int64_t i = 0; i < width; ++i)
          squares += x.get(group * width + i) * x.get(group * width + i);
        const double inv = 1.0 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
        for (int64_t i = 0; i < width; ++i) {
          const double weight = w.get(i) + (plus_one ? 1.0 : 0.0);
          const double expected = x.get(group * width + i) * inv * weight;
          expect_rounded(dtype, y.get(group * width + i), expected, std::fabs(expected));
        }
      }
    }
  }
}

TEST(RowOpsTest, RmsNormDividesByTheRootMeanSquare) { expect_rms_norm(false); }
TEST(RowOpsTest, RmsNormAddsOneToAWeightStoredWithoutIt) { expect_rms_norm(true); }

TEST(RowOpsTest, LayerNormTakesTheMeanAway) {
  for (const DType dtype : kDtypes) {
    for (const int64_t width : {1, 8, 15, 17, 64, 576}) {
      const int64_t rows = 5;
      const Values x = Values::random(dtype, rows * width, 1, 3.0f);
      const Values w = Values::random(dtype, width, 2, 1.0f);
      const Values b = Values::random(dtype, width, 3, 1.0f);
      const Values y = same_on_every_path(dtype, [&](const Context& context) {
        Values out(dtype, x.size());
        layer_norm_forward(context, {width, width, 1e-5f}, rows, x.data(), w.data(), b.data(),
                           out.data());
        return out;
      });
      for (int64_t row = 0; row < rows; ++row) {
        double mean = 0.0;
        double variance = 0.0;
        for (int64_t i = 0; i < width; ++i) mean += x.get(row * width + i);
        mean /= static_cast<double>(width);
        for (int64_t i = 0; i < width; ++i) variance += std::pow(x.get(row * width + i) - mean, 2);
        const double inv = 1.0 / std::sqrt(variance / static_cast<double>(width) + 1e-5);
        for (int64_t i = 0; i < width; ++i) {
          const double h = (x.get(row * width + i) - mean) * inv;
          expect_rounded(dtype, y.get(row * width + i), h * w.get(i) + b.get(i),
                         std::fabs(h * w.get(i)) + std::fabs(b.get(i)) + inv * std::fabs(mean));
        }
      }
    }
  }
}

struct NormGradients {
  Values dx;
  std::vector<float> dw;
  friend bool operator==(const NormGradients&, const NormGradients&) = default;
};

TEST(RowOpsTest, RmsNormGradientAgreesWithF64) {
  for (const DType dtype : kDtypes) {
    for (const int64_t width : {8, 17, 64, 192}) {
      const PackedTable packed({3, 1, 1500});
      const int64_t rows = packed.table.num_rows;
      const int64_t groups = 3;
      const int64_t row = groups * width;
      Values x = Values::random(dtype, rows * row, 1, 2.0f);
      Values dy = Values::random(dtype, rows * row, 2, 1.0f);
      const Values w = Values::random(dtype, width, 3, 1.0f);
      const NormGradients got = same_on_every_path(dtype, [&](const Context& context) {
        NormGradients g{Values(dtype, x.size()),
                        std::vector<float>(static_cast<size_t>(width), 1.0f)};
        rms_norm_grad(context, {row, width, 1e-5f}, rows, x.data(), w.data(), dy.data(),
                      g.dx.data(), g.dw.data(), packed.table);
        return g;
      });
      std::vector<double> dw(static_cast<size_t>(width), 1.0);
      std::vector<double> dw_size(static_cast<size_t>(width), 1.0);
      for (const Segment& segment : packed.segments) {
        for (int64_t group = segment.row_begin * groups;
             group < (segment.row_begin + segment.num_rows) * groups; ++group) {
          double squares = 0.0;
          double dots = 0.0;
          const auto at = [&](int64_t i) { return group * width + i; };
          for (int64_t i = 0; i < width; ++i) squares += x.get(at(i)) * x.get(at(i));
          const double inv = 1.0 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
          for (int64_t i = 0; i < width; ++i) dots += dy.get(at(i)) * w.get(i) * x.get(at(i)) * inv;
          for (int64_t i = 0; i < width; ++i) {
            const double h = x.get(at(i)) * inv;
            const double g = dy.get(at(i)) * w.get(i);
            const double expected = inv * (g - h * dots / static_cast<double>(width));
            // the mean of g h cancels against g: an error of its own size
            expect_rounded(dtype, got.dx.get(at(i)), expected, inv * (std::fabs(g) + std::fabs(h)));
            dw[static_cast<size_t>(i)] += dy.get(at(i)) * h;
            dw_size[static_cast<size_t>(i)] += std::fabs(dy.get(at(i)) * h);
          }
        }
      }
      for (size_t i = 0; i < dw.size(); ++i) {
        EXPECT_NEAR(got.dw[i], dw[i], 64 * 0x1p-24 * dw_size[i]);  // 4,512 adds of random sign
      }
    }
  }
}

TEST(RowOpsTest, RopeRotatesPairsHalfAHeadApartAndInverseUndoesIt) {
  const PackedTable packed({3, 5});
  const int64_t rows = packed.table.num_rows;
  for (const DType dtype : kDtypes) {
    for (const int64_t c : {8, 16, 64, 80, 128}) {
      std::vector<float> table;
      for (int64_t position = 0; position < 5; ++position) {
        for (int64_t i = 0; i < c / 2; ++i) {
          const double angle =
              static_cast<double>(position) * std::pow(0.9, static_cast<double>(i));
          table.push_back(static_cast<float>(std::cos(angle)));
          table.push_back(static_cast<float>(std::sin(angle)));
        }
      }
      const int64_t heads = 3;
      const Values x = Values::random(dtype, rows * heads * c, 1, 2.0f);
      const auto rotate = [&](bool inverse) {
        return same_on_every_path(dtype, [&](const Context& context) {
          Values y(dtype, x.size());
          rope(context, {heads, c, c, inverse}, rows, table.data(), x.data(), y.data(),
               packed.table);
          return y;
        });
      };
      const Values y = rotate(false);
      const Values back = rotate(true);
      for (const Segment& segment : packed.segments) {
        for (int64_t r = 0; r < segment.num_rows; ++r) {
          for (int64_t head = 0; head < heads; ++head) {
            const int64_t at = ((segment.row_begin + r) * heads + head) * c;
            for (int64_t i = 0; i < c / 2; ++i) {
              const double cosine = table[static_cast<size_t>((r * (c / 2) + i) * 2)];
              const double sine = table[static_cast<size_t>((r * (c / 2) + i) * 2 + 1)];
              const double a = x.get(at + i);
              const double b = x.get(at + c / 2 + i);
              const double size = std::fabs(a) + std::fabs(b);
              expect_rounded(dtype, y.get(at + i), a * cosine - b * sine, size);
              expect_rounded(dtype, y.get(at + c / 2 + i), b * cosine + a * sine, size);
              expect_rounded(dtype, back.get(at + i), a * cosine + b * sine, size);
              expect_rounded(dtype, back.get(at + c / 2 + i), b * cosine - a * sine, size);
            }
          }
        }
      }
      for (int64_t i = 3 * heads * c; i < 4 * heads * c; ++i) EXPECT_EQ(y.get(i), 0.0);  // padding
    }
  }
}

double rounded(DType dtype, double x) {
  return dtype == DType::kBF16 ? to_f32(to_bf16(static_cast<float>(x))) : static_cast<float>(x);
}

/// An activation, its derivative, and the sizes that their roundings go by.
struct Truth {
  Activation f;
  double (*value)(double x);
  double (*value_size)(double x);
  double (*derivative)(double x);
  double (*derivative_size)(double x);
};

void expect_activation(const Truth& truth) {
  for (const DType dtype : kDtypes) {
    for (const int64_t n : {0, 1, 15, 16, 17, 40000}) {
      const Values gate = Values::random(dtype, n, 1, 12.0f);
      const Values up = Values::random(dtype, n, 2, 2.0f);
      const Values dy = Values::random(dtype, n, 3, 1.0f);
      const auto unary = [&](auto op) {
        return same_on_every_path(dtype, [&](const Context& context) {
          Values y(dtype, n);
          op(context, y.data());
          return y;
        });
      };
      const Values s = unary(
          [&](const Context& c, void* y) { activation_forward(c, truth.f, n, gate.data(), y); });
      const Values fused = unary([&](const Context& c, void* y) {
        gated_forward(c, truth.f, n, gate.data(), up.data(), y);
      });
      const Values parts =
          unary([&](const Context& c, void* y) { multiply(c, n, s.data(), up.data(), y); });
      EXPECT_EQ(fused, parts);
      const Values ds =
          unary([&](const Context& c, void* y) { multiply(c, n, dy.data(), up.data(), y); });
      const Values dgate = unary([&](const Context& c, void* y) {
        activation_grad(c, truth.f, n, gate.data(), ds.data(), y);
      });
      const Values dup =
          unary([&](const Context& c, void* y) { multiply(c, n, dy.data(), s.data(), y); });
      const auto both = same_on_every_path(dtype, [&](const Context& context) {
        std::vector<Values> out(2, Values(dtype, n));
        gated_grad(context, truth.f, n, gate.data(), up.data(), dy.data(), out[0].data(),
                   out[1].data());
        return out;
      });
      EXPECT_EQ(both[0], dgate);
      EXPECT_EQ(both[1], dup);
      for (int64_t i = 0; i < n; ++i) {
        const double x = gate.get(i);
        expect_rounded(dtype, s.get(i), truth.value(x), truth.value_size(x));
        expect_rounded(dtype, dgate.get(i), ds.get(i) * truth.derivative(x),
                       std::fabs(ds.get(i)) * truth.derivative_size(x));
      }
    }
  }
}

TEST(RowOpsTest, SiluAndItsProductFollowTheirDefinitions) {
  expect_activation(
      {.f = Activation::kSilu,
       .value = [](double x) { return x * sigmoid(x); },
       .value_size = [](double x) { return std::fabs(x * sigmoid(x)); },
       .derivative = [](double x) { return sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))); },
       .derivative_size = [](double x) { return sigmoid(x) * (1.0 + std::fabs(x)); }});
}

/// Twice the argument of gelu's tanh, and its derivative.
double gelu_argument(double x) { return 1.5957691216057308 * (x + 0.044715 * x * x * x); }
double gelu_slope(double x) { return 1.5957691216057308 * (1.0 + 0.134145 * x * x); }
/// The argument is rounded before e to its power: the relative error grows with it. What flushes to
/// zero is below 1e-30.
double gelu_growth(double x) { return 1.0 + std::fabs(gelu_argument(x)); }

TEST(RowOpsTest, GeluAndItsProductFollowTheirDefinitions) {
  for (double x = -3.0; x < 3.0; x += 0.1) {  // further out the tanh form cancels in f64
    EXPECT_NEAR(x * sigmoid(gelu_argument(x)), 0.5 * x * (1.0 + std::tanh(0.5 * gelu_argument(x))),
                1e-15);
  }
  expect_activation({.f = Activation::kGelu,
                     .value = [](double x) { return x * sigmoid(gelu_argument(x)); },
                     .value_size =
                         [](double x) {
                           return std::fabs(x) *
                                  (sigmoid(gelu_argument(x)) * gelu_growth(x) + 1e-30);
                         },
                     .derivative =
                         [](double x) {
                           const double s = sigmoid(gelu_argument(x));
                           return s * (1.0 + x * (1.0 - s) * gelu_slope(x));
                         },
                     .derivative_size =
                         [](double x) {
                           return (1.0 + std::fabs(x) * gelu_slope(x)) *
                                  (sigmoid(gelu_argument(x)) * gelu_growth(x) + 1e-30);
                         }});
}

TEST(RowOpsTest, GeluHandlesItsEnds) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {0.0f, 30.0f, -30.0f, 1e30f, -1e30f, nan};
  const Values value = same_on_every_path(DType::kF32, [&](const Context& context) {
    Values y(DType::kF32, 6);
    activation_forward(context, Activation::kGelu, 5, x.data(), y.data());
    return y;
  });
  const Values slope = same_on_every_path(DType::kF32, [&](const Context& context) {
    const std::vector<float> ones(6, 1.0f);
    Values y(DType::kF32, 6);
    activation_grad(context, Activation::kGelu, 5, x.data(), ones.data(), y.data());
    return y;
  });
  const double values[] = {0.0, 30.0, 0.0, 1e30f, 0.0};
  const double slopes[] = {0.5, 1.0, 0.0, 1.0, 0.0};
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(value.get(i), values[i]);
    EXPECT_EQ(slope.get(i), slopes[i]);
  }
}

TEST(RowOpsTest, ScaleMultipliesAndRoundsOnce) {
  for (const DType dtype : kDtypes) {
    const Values x = Values::random(dtype, 20001, 1, 4.0f);
    const Values y = same_on_every_path(dtype, [&](const Context& context) {
      Values out(dtype, x.size());
      scale_values(context, x.size(), x.data(), 5.65685f, out.data());
      return out;
    });
    for (int64_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(y.get(i), rounded(dtype, static_cast<float>(x.get(i)) * 5.65685f));
  }
}

TEST(RowOpsTest, AddManyAddsInTheOrderGivenAndRoundsOnce) {
  for (const DType dtype : kDtypes) {
    for (const int64_t n : {1, 16, 33, 20000}) {
      const Values a = Values::random(dtype, n, 1, 100.0f);
      const Values b = Values::random(dtype, n, 2, 100.0f);
      const Values c = Values::random(dtype, n, 3, 1e-3f);
      const void* terms[] = {a.data(), b.data(), c.data()};
      const Values y = same_on_every_path(dtype, [&](const Context& context) {
        Values out(dtype, n);
        add_many(context, n, terms, out.data());
        return out;
      });
      for (int64_t i = 0; i < n; ++i) {
        const float sum = (static_cast<float>(a.get(i)) + static_cast<float>(b.get(i))) +
                          static_cast<float>(c.get(i));
        EXPECT_EQ(y.get(i), rounded(dtype, sum));
      }
    }
  }
}

TEST(RowOpsTest, GatherTakesPickedRowsAndScatterPutsThemBack) {
  const std::vector<int32_t> picked = {4, 0, 2, -1};
  RowTable table;
  table.num_rows = 5;
  table.picked = picked;
  const Values x = Values::random(DType::kBF16, 5 * 3, 1, 1.0f);
  const Values y = same_on_every_path(DType::kBF16, [&](const Context& context) {
    Values out(DType::kBF16, 4 * 3);
    gather_rows(context, 3, x.data(), out.data(), table);
    return out;
  });
  const Values back = same_on_every_path(DType::kBF16, [&](const Context& context) {
    Values out(DType::kBF16, 5 * 3);
    for (int64_t i = 0; i < 15; ++i) out.set(i, 9.0f);
    scatter_rows(context, 5, 3, y.data(), out.data(), table);
    return out;
  });
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(y.get(j), x.get(4 * 3 + j));
    EXPECT_EQ(y.get(3 + j), x.get(j));
    EXPECT_EQ(y.get(6 + j), x.get(2 * 3 + j));
    EXPECT_EQ(y.get(9 + j), 0.0);
    EXPECT_EQ(back.get(j), x.get(j));
    EXPECT_EQ(back.get(3 + j), 0.0);
    EXPECT_EQ(back.get(6 + j), x.get(6 + j));
    EXPECT_EQ(back.get(9 + j), 0.0);
    EXPECT_EQ(back.get(12 + j), x.get(12 + j));
  }
}

TEST(RowOpsTest, AccumulateAdds) {
  for (const int64_t n : {0, 1, 17, 20000}) {
    const Values x = Values::random(DType::kF32, n, 1, 1.0f);
    const Values start = Values::random(DType::kF32, n, 2, 1.0f);
    const Values y = same_on_every_path(DType::kF32, [&](const Context& context) {
      Values out = start;
      accumulate(context, n, static_cast<const float*>(x.data()), static_cast<float*>(out.data()));
      return out;
    });
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(y.get(i), static_cast<float>(start.get(i)) + static_cast<float>(x.get(i)));
    }
  }
}

}  // namespace
}  // namespace mainspring::cpu

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/rows_of.h"
#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

struct Case {
  DType dtype;
  int64_t d, vocabulary;
  std::vector<Segment> segments;  // of picks
  RowTable table;
  std::vector<int32_t> picks, targets;
  std::vector<float> d_logprob;
  Values w, x;

  /// Sequences with the given numbers of picks; an odd one is followed by a zero row.
  Case(DType compute, int64_t width, int64_t v, const std::vector<int32_t>& counts)
      : dtype(compute), d(width), vocabulary(v) {
    for (const int32_t count : counts) {
      Segment segment;
      segment.row_begin = static_cast<int32_t>(picks.size());
      segment.num_rows = count;
      segments.push_back(segment);
      for (int32_t i = 0; i < count; ++i) picks.push_back(static_cast<int32_t>(picks.size()));
      if (count % 2 != 0) picks.push_back(-1);
    }
    table.num_rows = static_cast<int32_t>(picks.size());
    table.segments = segments;
    w = Values::random(dtype, vocabulary * d, 1, 1.0f);
    x = Values::random(dtype, picked() * d, 2, 1.0f);
    const Values weights = Values::random(DType::kF32, picked(), 3, 1.0f);
    for (int64_t i = 0; i < picked(); ++i) {
      targets.push_back(static_cast<int32_t>((i * 7919) % vocabulary));
      d_logprob.push_back(static_cast<float>(weights.get(i)));
      if (picks[static_cast<size_t>(i)] < 0) {
        for (int64_t j = 0; j < d; ++j) x.set(i * d + j, 0.0f);
      }
    }
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  int64_t picked() const { return static_cast<int64_t>(picks.size()); }
};

struct Outputs {
  std::vector<float> logprob, lse;
  Values dx;
  std::vector<float> dw;
  friend bool operator==(const Outputs&, const Outputs&) = default;
};

struct Packs {
  std::vector<char> forward, input_grad;
  PackedWeight weight;

  Packs(const Context& context, const Case& c) {
    forward = scratch_of(packed_forward_bytes(context, c.vocabulary, c.d));
    input_grad = scratch_of(packed_input_grad_bytes(context, c.vocabulary, c.d));
    const WeightView view{c.dtype, c.w.data(), c.vocabulary, c.d, nullptr};
    pack_forward(context, view, aligned(forward));
    pack_input_grad(context, view, aligned(input_grad));
    weight = {c.vocabulary, c.d, aligned(forward), aligned(input_grad)};
  }
};

Outputs run(Isa isa, int threads, const Case& c, int64_t kept_picks = 0) {
  ThreadPool pool(threads);
  const Context context = make_context(isa, pool, c.dtype);
  const Packs packs(context, c);
  std::vector<float> kept(static_cast<size_t>(kept_picks * c.vocabulary));
  const Head head{c.picked(),       c.d, packs.weight,   c.x.data(),
                  c.targets.data(), 1,   c.picks.data(), kept_picks > 0 ? kept.data() : nullptr,
                  kept_picks};
  std::vector<char> scratch =
      scratch_of(head_scratch_bytes(context, c.picked(), c.d, c.vocabulary, kept_picks));
  const auto n = static_cast<size_t>(c.picked());
  Outputs out{std::vector<float>(n), std::vector<float>(n), Values(c.dtype, c.picked() * c.d),
              std::vector<float>(static_cast<size_t>(c.vocabulary * c.d), 0.25f)};
  head_logprob_forward(context, head, out.logprob.data(), out.lse.data(), aligned(scratch));
  head_logprob_grad(context, head, out.lse.data(), c.d_logprob.data(), out.dx.data(), out.dw.data(),
                    c.table, aligned(scratch));
  return out;
}

/// The same from whole logits and the plain linear operations.
Outputs from_parts(Isa isa, const Case& c) {
  ThreadPool pool(2);
  const Context context = make_context(isa, pool, c.dtype);
  const Packs packs(context, c);
  const auto n = static_cast<size_t>(c.picked());
  Outputs out{std::vector<float>(n), std::vector<float>(n), Values(c.dtype, c.picked() * c.d),
              std::vector<float>(static_cast<size_t>(c.vocabulary * c.d), 0.25f)};
  std::vector<char> scratch = scratch_of(
      std::max({linear_forward_scratch_bytes(context, c.picked(), c.d),
                linear_input_grad_scratch_bytes(context, c.picked(), c.d, c.vocabulary),
                linear_weight_grad_scratch_bytes(context, c.picked(), c.vocabulary, c.d)}));
  std::vector<float> logits(n * static_cast<size_t>(c.vocabulary));
  LinearOutput output;
  output.weight = packs.weight;
  output.y = logits.data();
  output.y_f32 = true;
  linear_forward(context, c.picked(), c.d, c.x.data(), {&output, 1}, nullptr, aligned(scratch));
  Values dlogits(c.dtype, c.picked() * c.vocabulary);
  for (size_t i = 0; i < n; ++i) {
    if (c.picks[i] < 0) continue;
    const float* row = logits.data() + i * static_cast<size_t>(c.vocabulary);
    out.lse[i] = row_stats(context, row, c.vocabulary).lse;
    out.logprob[i] = row[c.targets[i]] - out.lse[i];
    const ComputeScope scope;
    rows_of(context).logit_grad(c.vocabulary, row, out.lse[i], c.d_logprob[i], 0.0f, c.targets[i],
                                dlogits.at(static_cast<int64_t>(i) * c.vocabulary));
  }
  const LinearInputGradTerm term{dlogits.data(), packs.weight};
  linear_input_grad(context, c.picked(), c.d, {&term, 1}, {}, out.dx.data(), c.table,
                    aligned(scratch));
  WeightGrad grad;
  grad.dy = dlogits.data();
  grad.out = c.vocabulary;
  grad.x = c.x.data();
  grad.in = c.d;
  grad.acc = out.dw.data();
  linear_weight_grad(context, c.picked(), grad, c.table, aligned(scratch));
  return out;
}

void expect_near_f64(const Case& c, const Outputs& out) {
  std::vector<double> dw(out.dw.size(), 0.25);
  std::vector<double> dw_size(out.dw.size(), 0.25);
  const std::vector<double> x = c.x.to_f64();
  const std::vector<double> w = c.w.to_f64();
  const double rounding = unit_roundoff(c.dtype);
  for (int64_t i = 0; i < c.picked(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (c.picks[at] < 0) {
      EXPECT_EQ(out.logprob[at], 0.0f);
      EXPECT_EQ(out.lse[at], 0.0f);
      for (int64_t j = 0; j < c.d; ++j) EXPECT_EQ(out.dx.get(i * c.d + j), 0.0);
      continue;
    }
    std::vector<double> p(static_cast<size_t>(c.vocabulary));
    double total = 0.0;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double logit = 0.0;
      for (int64_t j = 0; j < c.d; ++j)
        logit += x[static_cast<size_t>(i * c.d + j)] * w[static_cast<size_t>(v * c.d + j)];
      p[static_cast<size_t>(v)] = logit;
      total += std::exp(logit);
    }
    const double lse = std::log(total);
    EXPECT_NEAR(out.lse[at], lse, 64 * 0x1p-24 * (1 + std::fabs(lse)));
    EXPECT_NEAR(out.logprob[at], p[static_cast<size_t>(c.targets[at])] - lse,
                64 * 0x1p-24 * (8 + std::fabs(lse)));
    std::vector<double> dx(static_cast<size_t>(c.d));
    std::vector<double> dx_size(static_cast<size_t>(c.d));
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      const double onehot = v == c.targets[at] ? 1.0 : 0.0;
      const double q = std::exp(p[static_cast<size_t>(v)] - lse);
      const double g = c.d_logprob[at] * (onehot - q);
      const double g_size = std::fabs(c.d_logprob[at]) * (onehot + q);
      for (int64_t j = 0; j < c.d; ++j) {
        dx[static_cast<size_t>(j)] += g * w[static_cast<size_t>(v * c.d + j)];
        dx_size[static_cast<size_t>(j)] += g_size * std::fabs(w[static_cast<size_t>(v * c.d + j)]);
        dw[static_cast<size_t>(v * c.d + j)] += g * x[static_cast<size_t>(i * c.d + j)];
        dw_size[static_cast<size_t>(v * c.d + j)] +=
            g_size * std::fabs(x[static_cast<size_t>(i * c.d + j)]);
      }
    }
    for (size_t j = 0; j < dx.size(); ++j) {
      EXPECT_NEAR(out.dx.get(i * c.d + static_cast<int64_t>(j)), dx[j],
                  (2 * rounding + 64 * 0x1p-24) * dx_size[j] + 1e-30);
    }
  }
  for (size_t j = 0; j < dw.size(); ++j) {
    ASSERT_NEAR(out.dw[j], dw[j], (rounding + 64 * 0x1p-24) * dw_size[j]) << j;
  }
}

TEST(HeadTest, AgreesWithF64WithItsPartsAndAcrossPathsAndThreads) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t vocabulary : {1, 15, 17, 300, 2049}) {
      for (const int64_t d : {8, 40}) {
        const int32_t last = vocabulary > 300 ? 20 : 140;  // 140: more than one batch of 128
        const Case c(dtype, d, vocabulary, {1, 5, 2, last});
        const Outputs scalar = run(Isa::kScalar, 1, c);
        expect_near_f64(c, scalar);
        EXPECT_EQ(from_parts(Isa::kScalar, c), scalar) << vocabulary;
        for (const Isa isa : test_paths()) {
          EXPECT_EQ(run(isa, 1, c), scalar) << isa_name(isa) << " v=" << vocabulary;
          EXPECT_EQ(run(isa, 2, c), scalar) << isa_name(isa) << " v=" << vocabulary;
        }
      }
    }
  }
}

TEST(HeadTest, ALargeVocabularyInManySlicesEqualsItsParts) {
  const Case c(DType::kBF16, 16, 49152, {33, 12});
  const Isa isa = test_paths().back();
  const Outputs fused = run(isa, 2, c);
  EXPECT_EQ(from_parts(isa, c), fused);
}

TEST(HeadTest, KeptLogitsChangeNoBit) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Case c(dtype, 24, 1000, {140, 77, 64});
    for (const Isa isa : test_paths()) {
      const Outputs computed_again = run(isa, 2, c);
      EXPECT_EQ(run(isa, 2, c, c.picked()), computed_again) << "all kept";
      EXPECT_EQ(run(isa, 2, c, 256), computed_again) << "two batches kept";
      EXPECT_EQ(run(isa, 1, c, 130), computed_again) << "one batch kept";
      EXPECT_EQ(run(isa, 1, c, 100), computed_again) << "not even a batch kept";
    }
  }
}

TEST(HeadTest, MoreThan2048PicksOfOneSequenceFoldInSegments) {
  const Case c(DType::kBF16, 8, 17, {2100, 3});
  const Isa isa = test_paths().back();
  const Outputs fused = run(isa, 2, c);
  EXPECT_EQ(from_parts(isa, c), fused);
  EXPECT_EQ(run(Isa::kScalar, 1, c), fused);
}

TEST(HeadTest, AFrozenHeadGetsNoWeightGradient) {
  const Case c(DType::kBF16, 8, 17, {3});
  ThreadPool pool(1);
  const Context context = make_context(test_paths().back(), pool, c.dtype);
  const Packs packs(context, c);
  const Head head{c.picked(), c.d, packs.weight, c.x.data(), c.targets.data(), 1, c.picks.data()};
  std::vector<char> scratch =
      scratch_of(head_scratch_bytes(context, c.picked(), c.d, c.vocabulary));
  const Outputs with = run(test_paths().back(), 1, c);
  Values dx(c.dtype, c.picked() * c.d);
  head_logprob_grad(context, head, with.lse.data(), c.d_logprob.data(), dx.data(), nullptr, c.table,
                    aligned(scratch));
  EXPECT_EQ(dx, with.dx);
}

}  // namespace
}  // namespace mainspring::cpu

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/kernels/rows_table.h"
#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {

namespace avx2 {
const RowsTable& wide_rows_table();
}

namespace {

struct Case {
  AttentionShape shape;
  DType dtype = DType::kBF16;
  int64_t rows = 0;
  Values q, k, v, d_o;
};

/// The same values in f64.
struct ExactInputs {
  std::vector<double> q, k, v, d_o;
  explicit ExactInputs(const Case& c)
      : q(c.q.to_f64()), k(c.k.to_f64()), v(c.v.to_f64()), d_o(c.d_o.to_f64()) {}
};

struct Gradients {
  Values dq, dk, dv;
  friend bool operator==(const Gradients&, const Gradients&) = default;
};

AttentionShape shape_of(int64_t heads, int64_t kv_heads, int64_t width, int64_t window = 0) {
  return {heads, kv_heads, width, 1.0f / std::sqrt(static_cast<float>(width)), window};
}

Case make_case(DType dtype, const AttentionShape& shape, int64_t rows, uint64_t seed) {
  Case c{shape, dtype, rows, {}, {}, {}, {}};
  c.q = Values::random(dtype, rows * shape.query_heads * shape.width, seed, 2.0f);
  c.k = Values::random(dtype, rows * shape.kv_heads * shape.width, seed + 1, 2.0f);
  c.v = Values::random(dtype, rows * shape.kv_heads * shape.width, seed + 2, 1.0f);
  c.d_o = Values::random(dtype, rows * shape.query_heads * shape.width, seed + 3, 1.0f);
  return c;
}

/// Forward and backward of rows [first, first + table.num_rows) of the case.
Gradients gradients(const Context& context, const Case& c, const RowTable& table,
                    int64_t first = 0) {
  const int64_t rows = table.num_rows;
  const int64_t q_row = c.shape.query_heads * c.shape.width;
  const int64_t kv_row = c.shape.kv_heads * c.shape.width;
  Values o(c.dtype, rows * q_row);
  std::vector<float> lse(static_cast<size_t>(rows * c.shape.query_heads));
  std::vector<char> scratch =
      scratch_of(std::max(attention_forward_scratch_bytes(context, c.shape, rows),
                          attention_grad_scratch_bytes(context, c.shape, rows)));
  attention_forward(context, c.shape, rows, c.q.at(first * q_row), c.k.at(first * kv_row),
                    c.v.at(first * kv_row), o.data(), lse.data(), table, nullptr, 0,
                    aligned(scratch));
  Gradients g{Values(c.dtype, rows * q_row), Values(c.dtype, rows * kv_row),
              Values(c.dtype, rows * kv_row)};
  for (Values* values : {&g.dq, &g.dk, &g.dv}) {
    for (int64_t i = 0; i < values->size(); ++i) values->set(i, -7.0f);
  }
  attention_grad(context, c.shape, rows, c.q.at(first * q_row), c.k.at(first * kv_row),
                 c.v.at(first * kv_row), o.data(), lse.data(), c.d_o.at(first * q_row), g.dq.data(),
                 g.dk.data(), g.dv.data(), table, aligned(scratch));
  return g;
}

Gradients gradients(Isa isa, int threads, const Case& c, const RowTable& table, int64_t first = 0) {
  ThreadPool pool(threads);
  return gradients(make_context(isa, pool, c.dtype), c, table, first);
}

/// A gradient in f64 and the sum of its terms' sizes, which rounding errors scale with.
struct Exact {
  std::vector<double> value, size;
  explicit Exact(int64_t n) : value(static_cast<size_t>(n)), size(static_cast<size_t>(n)) {}
  void add(int64_t i, double term, double magnitude) {
    value[static_cast<size_t>(i)] += term;
    size[static_cast<size_t>(i)] += magnitude;
  }
};

struct ExactGradients {
  Exact dq, dk, dv;
};

void add_row(const Case& c, const ExactInputs& in, int64_t first, int64_t row, int64_t head,
             ExactGradients& g) {
  const int64_t w = c.shape.width;
  const int64_t kv_head = head / (c.shape.query_heads / c.shape.kv_heads);
  const int64_t low = c.shape.window > 0 ? std::max(first, row - c.shape.window + 1) : first;
  const int64_t q_at = (row * c.shape.query_heads + head) * w;
  const auto kv_at = [&](int64_t key) { return (key * c.shape.kv_heads + kv_head) * w; };
  std::vector<double> p, dp, dp_size;
  double top = -1e300;
  for (int64_t key = low; key <= row; ++key) {
    double s = 0.0;
    double d = 0.0;
    double d_size = 0.0;
    for (int64_t i = 0; i < w; ++i) {
      s += in.q[static_cast<size_t>(q_at + i)] * in.k[static_cast<size_t>(kv_at(key) + i)];
      d += in.d_o[static_cast<size_t>(q_at + i)] * in.v[static_cast<size_t>(kv_at(key) + i)];
      d_size += std::fabs(in.d_o[static_cast<size_t>(q_at + i)] *
                          in.v[static_cast<size_t>(kv_at(key) + i)]);
    }
    p.push_back(s * c.shape.scale);
    dp.push_back(d);
    dp_size.push_back(d_size);
    top = std::max(top, p.back());
  }
  double total = 0.0;
  for (double& x : p) total += x = std::exp(x - top);
  double delta = 0.0;
  double delta_size = 0.0;
  for (size_t j = 0; j < p.size(); ++j) {
    p[j] /= total;
    delta += p[j] * dp[j];
    delta_size += p[j] * dp_size[j];
  }
  for (size_t j = 0; j < p.size(); ++j) {
    const double ds = p[j] * (dp[j] - delta) * c.shape.scale;
    const double ds_size = p[j] * (dp_size[j] + delta_size) * c.shape.scale;
    const int64_t at = kv_at(low + static_cast<int64_t>(j));
    for (int64_t i = 0; i < w; ++i) {
      const double k = in.k[static_cast<size_t>(at + i)];
      const double q = in.q[static_cast<size_t>(q_at + i)];
      const double d_o = in.d_o[static_cast<size_t>(q_at + i)];
      g.dq.add(q_at + i, ds * k, ds_size * std::fabs(k));
      g.dk.add(at + i, ds * q, ds_size * std::fabs(q));
      g.dv.add(at + i, p[j] * d_o, p[j] * std::fabs(d_o));
    }
  }
}

void expect_near(const Case& c, const Values& got, const Exact& exact, const char* name) {
  // P, dS, D (through o) and the result are rounded once each; scores of size up to 30 carry 2^-24
  // each.
  const double factor = 3.0 * unit_roundoff(c.dtype) + 256 * 0x1p-24;
  for (int64_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_NEAR(got.get(i), exact.value[at], factor * exact.size[at] + 1e-30) << name << " " << i;
  }
}

TEST(AttentionGradTest, AgreesWithF64AndAcrossPathsAndThreads) {
  const PackedTable packed({1, 5, 64, 131, 0, 66});
  const std::vector<AttentionShape> shapes = {shape_of(1, 1, 8),   shape_of(3, 1, 16),
                                              shape_of(6, 2, 64),  shape_of(2, 2, 80),
                                              shape_of(3, 1, 128), shape_of(4, 2, 64, 37)};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const AttentionShape& shape : shapes) {
      const Case c = make_case(dtype, shape, packed.table.num_rows, 7);
      const Gradients scalar = gradients(Isa::kScalar, 1, c, packed.table);
      const ExactInputs inputs(c);
      ExactGradients exact{Exact(c.q.size()), Exact(c.k.size()), Exact(c.k.size())};
      for (const Segment& segment : packed.segments) {
        for (int64_t i = 0; i < segment.num_rows; ++i) {
          for (int64_t head = 0; head < shape.query_heads; ++head) {
            add_row(c, inputs, segment.row_begin, segment.row_begin + i, head, exact);
          }
        }
      }
      expect_near(c, scalar.dq, exact.dq, "dq");  // zeros in padding rows included
      expect_near(c, scalar.dk, exact.dk, "dk");
      expect_near(c, scalar.dv, exact.dv, "dv");
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(gradients(isa, 1, c, packed.table), scalar)
            << isa_name(isa) << " c=" << shape.width;
        EXPECT_EQ(gradients(isa, 2, c, packed.table), scalar)
            << isa_name(isa) << " c=" << shape.width;
      }
    }
  }
}

TEST(AttentionGradTest, TheLayoutsOfAvx512GiveTheSameBits) {
  if (test_paths().back() == Isa::kScalar) return;  // needs AVX2 to run
  const PackedTable packed({1, 5, 64, 131});
  KernelTable wide = kernel_table(Isa::kAvx2);
  wide.rows = &avx2::wide_rows_table();
  ThreadPool pool(1);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const AttentionShape& shape :
         {shape_of(3, 1, 8), shape_of(2, 1, 80), shape_of(1, 1, 64, 37)}) {
      const Case c = make_case(dtype, shape, packed.table.num_rows, 7);
      EXPECT_EQ(gradients({&wide, &pool, dtype}, c, packed.table),
                gradients(Isa::kScalar, 1, c, packed.table));
    }
  }
}

TEST(AttentionGradTest, PackedEqualsAlone) {
  const PackedTable packed({33, 7, 150});
  const Case c = make_case(DType::kBF16, shape_of(3, 1, 64), packed.table.num_rows, 11);
  const Isa isa = test_paths().back();
  const Gradients together = gradients(isa, 2, c, packed.table);
  for (const Segment& segment : packed.segments) {
    const PackedTable one({segment.num_rows});
    const Gradients alone = gradients(isa, 2, c, one.table, segment.row_begin);
    const auto same = [&](const Values& a, const Values& b, int64_t row) {
      return std::memcmp(a.data(), b.at(segment.row_begin * row),
                         static_cast<size_t>(segment.num_rows * row) * 2) == 0;
    };
    EXPECT_TRUE(same(alone.dq, together.dq, 3 * 64));
    EXPECT_TRUE(same(alone.dk, together.dk, 64));
    EXPECT_TRUE(same(alone.dv, together.dv, 64));
  }
}

TEST(AttentionGradTest, SequencesLongerThanASegmentAgreeAcrossPaths) {
  const PackedTable packed({2200});
  for (const AttentionShape& shape : {shape_of(1, 1, 8), shape_of(1, 1, 8, 300)}) {
    const Case c = make_case(DType::kF32, shape, 2200, 3);
    const Gradients scalar = gradients(Isa::kScalar, 2, c, packed.table);
    EXPECT_EQ(gradients(test_paths().back(), 2, c, packed.table), scalar);
    const ExactInputs inputs(c);
    ExactGradients exact{Exact(c.q.size()), Exact(c.k.size()), Exact(c.k.size())};
    for (int64_t row = 0; row < 2200; ++row) add_row(c, inputs, 0, row, 0, exact);
    expect_near(c, scalar.dq, exact.dq, "dq");
    expect_near(c, scalar.dk, exact.dk, "dk");
    expect_near(c, scalar.dv, exact.dv, "dv");
  }
}

}  // namespace
}  // namespace mainspring::cpu

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/linear_test_util.h"

namespace mainspring::cpu {
namespace {

struct Shape {
  int64_t rows, in, out;
};
constexpr Shape kShapes[] = {
    {1, 1, 1},    {1, 2, 17},    {2, 127, 16},   {3, 129, 33},  {5, 256, 70},  {6, 100, 32},
    {7, 257, 15}, {13, 576, 40}, {16, 1536, 24}, {37, 515, 20}, {100, 66, 19}, {4, 1025, 130},
};

Values run_forward(const Context& context, const Shape& s, const Values& x, const Values& w,
                   const Values* bias) {
  const TestWeight weight(context, w, s.out, s.in);
  Values y(context.compute, s.rows * s.out);
  LinearOutput output;
  output.weight = weight.packed;
  output.bias = bias == nullptr ? nullptr : bias->data();
  output.y = y.data();
  auto scratch = scratch_of(linear_forward_scratch_bytes(context, s.rows, s.in));
  linear_forward(context, s.rows, s.in, x.data(), {&output, 1}, nullptr, aligned(scratch));
  return y;
}

TEST(LinearTest, ForwardFollowsTheRulesOnEveryPathAndThreadCount) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const Shape& s : kShapes) {
      const Values x = Values::random(dtype, s.rows * s.in, 1, 2.0f);
      const Values w = Values::random(dtype, s.out * s.in, 2, 1.0f);
      const Values bias = Values::random(dtype, s.out, 3, 1.0f);
      std::vector<float> expected;
      {
        const ComputeScope scope;
        for (int64_t r = 0; r < s.rows; ++r) {
          for (int64_t o = 0; o < s.out; ++o) {
            expected.push_back(chunked_dot(dtype, {{{&x, r * s.in}, {&w, o * s.in}, s.in}}) +
                               static_cast<float>(bias.get(o)));
          }
        }
      }
      for (const NamedTable& path : all_tables()) {
        for (const int threads : {1, 2, 3}) {
          ThreadPool pool(threads);
          const Context context{&path.table, &pool, dtype};
          EXPECT_EQ(run_forward(context, s, x, w, &bias), stored(dtype, expected))
              << path.name << " " << s.rows << " " << s.in << " " << s.out;
        }
      }
    }
  }
}

TEST(LinearTest, ForwardIsNearTheExactProduct) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Shape s{9, 1000, 35};
    const Values x = Values::random(dtype, s.rows * s.in, 4, 1.0f);
    const Values w = Values::random(dtype, s.out * s.in, 5, 1.0f);
    ThreadPool pool(1);
    const Values y = run_forward({&all_tables()[0].table, &pool, dtype}, s, x, w, nullptr);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t o = 0; o < s.out; ++o) {
        double sum = 0.0, magnitude = 0.0;
        for (int64_t i = 0; i < s.in; ++i) {
          const double product = x.get(r * s.in + i) * w.get(o * s.in + i);
          sum += product;
          magnitude += std::fabs(product);
        }
        // A chunk is a fold of 125 terms; three additions follow.
        const double bound =
            128 * 0x1p-24 * magnitude + (dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24) * std::fabs(sum);
        EXPECT_NEAR(y.get(r * s.out + o), sum, bound);
      }
    }
  }
}

TEST(LinearTest, ARowAloneEqualsTheSameRowAmongOthers) {
  const Shape all{70, 577, 50};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values x = Values::random(dtype, all.rows * all.in, 6, 1.0f);
    const Values w = Values::random(dtype, all.out * all.in, 7, 1.0f);
    for (const NamedTable& path : all_tables()) {
      ThreadPool pool(2);
      const Context context{&path.table, &pool, dtype};
      const Values together = run_forward(context, all, x, w, nullptr);
      for (const int64_t row : {0, 1, 34, 69}) {
        Values one(dtype, all.in);
        for (int64_t i = 0; i < all.in; ++i)
          one.set(i, static_cast<float>(x.get(row * all.in + i)));
        const Values alone = run_forward(context, {1, all.in, all.out}, one, w, nullptr);
        for (int64_t o = 0; o < all.out; ++o) {
          ASSERT_EQ(alone.get(o), together.get(row * all.out + o)) << path.name << " row " << row;
        }
      }
    }
  }
}

TEST(LinearTest, AdaptersOfDifferentRanksAddToTheirOwnRowsBeforeTheRounding) {
  const int64_t in = 130, out = 45;
  const SlotTable rows({5, 3, 4, 2}, {1, -1, 0, 1});
  const int64_t n = rows.table.num_rows;  // 6 + 4 + 4 + 2
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values x = Values::random(dtype, n * in, 8, 1.0f);
    const Values w = Values::random(dtype, out * in, 9, 1.0f);
    const Values bias = Values::random(dtype, out, 10, 1.0f);
    const int64_t ranks[] = {3, 150};
    Values u[2], b[2];
    for (size_t i = 0; i < 2; ++i) {
      u[i] = Values::random(dtype, n * ranks[i], 11 + i, 1.0f);
      b[i] = Values::random(dtype, out * ranks[i], 13 + i, 1.0f);
    }
    std::vector<float> expected;
    {
      const ComputeScope scope;
      for (int64_t r = 0; r < n; ++r) {
        const int32_t slot = rows.slot_of(r, -2);
        for (int64_t o = 0; o < out; ++o) {
          float y = chunked_dot(dtype, {{{&x, r * in}, {&w, o * in}, in}});
          y += static_cast<float>(bias.get(o));
          if (slot >= 0) {
            const auto i = static_cast<size_t>(slot);
            y += fold(dtype, {&u[i], r * ranks[i]}, {&b[i], o * ranks[i]}, 0, ranks[i], 0.0f);
          }
          expected.push_back(slot == -2 ? 0.0f : y);
        }
      }
    }
    for (const NamedTable& path : all_tables()) {
      ThreadPool pool(2);
      const Context context{&path.table, &pool, dtype};
      const TestWeight weight(context, w, out, in);
      const TestWeight b0(context, b[0], out, ranks[0]), b1(context, b[1], out, ranks[1]);
      const LoraUp adapters[] = {{0, ranks[0], u[0].data(), b0.packed},
                                 {1, ranks[1], u[1].data(), b1.packed}};
      Values y(dtype, n * out);
      LinearOutput output;
      output.weight = weight.packed;
      output.bias = bias.data();
      output.y = y.data();
      output.adapters = adapters;
      auto scratch = scratch_of(linear_forward_scratch_bytes(context, n, in));
      linear_forward(context, n, in, x.data(), {&output, 1}, &rows.table, aligned(scratch));
      EXPECT_EQ(y, stored(dtype, expected)) << path.name;
    }
  }
}

TEST(LinearTest, SeveralOutputsEqualOneAtATime) {
  const int64_t rows = 30, in = 576;
  const int64_t outs[] = {48, 17, 64};
  const Values x = Values::random(DType::kBF16, rows * in, 20, 1.0f);
  for (const NamedTable& path : all_tables()) {
    ThreadPool pool(2);
    const Context context{&path.table, &pool, DType::kBF16};
    std::vector<Values> w, y;
    std::vector<TestWeight> weights;
    std::vector<LinearOutput> outputs(3);
    for (size_t i = 0; i < 3; ++i) {
      w.push_back(Values::random(DType::kBF16, outs[i] * in, 21 + i, 1.0f));
      weights.emplace_back(context, w[i], outs[i], in);
      y.emplace_back(i == 1 ? DType::kF32 : DType::kBF16, rows * outs[i]);
    }
    for (size_t i = 0; i < 3; ++i) {
      outputs[i].weight = {outs[i], in, weights[i].forward.data(), nullptr};
      outputs[i].y = y[i].data();
      outputs[i].y_f32 = i == 1;
    }
    auto scratch = scratch_of(linear_forward_scratch_bytes(context, rows, in));
    linear_forward(context, rows, in, x.data(), outputs, nullptr, aligned(scratch));
    for (size_t i = 0; i < 3; ++i) {
      const Values one = run_forward(context, {rows, in, outs[i]}, x, w[i], nullptr);
      for (int64_t j = 0; j < rows * outs[i]; ++j) {
        const double got = i == 1 ? to_f32(to_bf16(static_cast<float>(y[i].get(j)))) : y[i].get(j);
        ASSERT_EQ(got, one.get(j)) << path.name;
      }
    }
  }
}

TEST(LinearTest, TheInputGradientOfLinearsThatShareAnInputIsOneReduction) {
  const std::vector<std::vector<int64_t>> widths = {
      {1}, {64}, {129, 63, 64}, {576, 192, 192}, {700, 900}};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const auto& outs : widths) {
      const SlotTable rows({7, 12}, {-1, -1});
      const int64_t n = rows.table.num_rows, in = 35;  // row 7 is padding
      std::vector<Values> dy, w;
      for (size_t i = 0; i < outs.size(); ++i) {
        dy.push_back(Values::random(dtype, n * outs[i], 30 + i, 1.0f));
        w.push_back(Values::random(dtype, outs[i] * in, 40 + i, 1.0f));
      }
      std::vector<float> expected;
      {
        const ComputeScope scope;
        for (int64_t r = 0; r < n; ++r) {
          for (int64_t j = 0; j < in; ++j) {
            std::vector<DotTerm> terms;
            for (size_t i = 0; i < outs.size(); ++i) {
              terms.push_back({{&dy[i], r * outs[i]}, {&w[i], j, in}, outs[i]});
            }
            expected.push_back(r == 7 ? 0.0f : chunked_dot(dtype, terms));
          }
        }
      }
      for (const NamedTable& path : all_tables()) {
        ThreadPool pool(2);
        const Context context{&path.table, &pool, dtype};
        std::vector<TestWeight> weights;
        std::vector<LinearInputGradTerm> terms;
        int64_t summed = 0;
        for (size_t i = 0; i < outs.size(); ++i) {
          weights.emplace_back(context, w[i], outs[i], in);
          summed += outs[i];
        }
        for (size_t i = 0; i < outs.size(); ++i) {
          terms.push_back({dy[i].data(), {outs[i], in, nullptr, weights[i].input_grad.data()}});
        }
        Values dx(dtype, n * in);
        auto scratch = scratch_of(linear_input_grad_scratch_bytes(context, n, in, summed));
        linear_input_grad(context, n, in, terms, {}, dx.data(), rows.table, aligned(scratch));
        EXPECT_EQ(dx, stored(dtype, expected)) << path.name << " " << outs[0];
      }
    }
  }
}

TEST(LinearTest, AProductWithoutRowsDoesNothing) {
  ThreadPool pool(2);
  const Context context = make_context(Isa::kScalar, pool, DType::kF32);
  const Values w = Values::random(DType::kF32, 6, 1, 1.0f);
  EXPECT_EQ(run_forward(context, {0, 2, 3}, Values(DType::kF32, 0), w, nullptr).size(), 0);
}

}  // namespace
}  // namespace mainspring::cpu

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/linear_test_util.h"

namespace mainspring::cpu {
namespace {

std::vector<float> start_values(int64_t n) {
  const Values values = Values::random(DType::kF32, n, 99, 1.0f);
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<float>(values.get(i)));
  return out;
}

/// Rule 9 as loops: the fold of one sequence, cut at 2,048 if it is longer.
void fold_sequence(DType dtype, const Segment& s, const Vector& dy, const Vector& x, float& acc) {
  if (s.num_rows <= 2048) {
    acc = fold(dtype, dy, x, 0, s.num_rows, acc) + 0.0f;
    return;
  }
  for (int64_t begin = 0; begin < s.num_rows; begin += 2048) {
    acc += fold(dtype, dy, x, begin, std::min<int64_t>(begin + 2048, s.num_rows), 0.0f) + 0.0f;
  }
}

std::vector<float> expected_grad(DType dtype, const SlotTable& rows, int32_t slot, const Values& dy,
                                 int64_t out, const Values& x, int64_t in, std::vector<float> acc) {
  const ComputeScope scope;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      for (const Segment& s : rows.segments) {
        if (slot != kAllSlots && s.adapter_slot != slot) continue;
        fold_sequence(dtype, s, {&dy, s.row_begin * out + o, out}, {&x, s.row_begin * in + i, in},
                      acc[static_cast<size_t>(o * in + i)]);
      }
    }
  }
  return acc;
}

std::vector<float> run_grad(const Context& context, const SlotTable& rows, WeightGrad grad,
                            std::vector<float> acc) {
  grad.acc = acc.data();
  auto scratch =
      scratch_of(linear_weight_grad_scratch_bytes(context, rows.table.num_rows, grad.out, grad.in));
  linear_weight_grad(context, rows.table.num_rows, grad, rows.table, aligned(scratch));
  return acc;
}

TEST(WeightGradTest, FoldsTheTokensOfEverySequenceInOrder) {
  struct Case {
    std::vector<int32_t> lengths;
    int64_t out, in;
  };
  const Case cases[] = {{{1}, 1, 1},          {{2, 3}, 7, 17},           {{33, 1, 64}, 13, 50},
                        {{1030, 20}, 12, 33}, {{5, 4, 3, 2, 1}, 40, 16}, {{2049, 7}, 3, 20},
                        {{4100}, 7, 5}};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const Case& c : cases) {
      const SlotTable rows(c.lengths, std::vector<int32_t>(c.lengths.size(), -1));
      const int64_t n = rows.table.num_rows;
      const Values dy = Values::random(dtype, n * c.out, 1, 1.0f);
      const Values x = Values::random(dtype, n * c.in, 2, 1.0f);
      const auto start = start_values(c.out * c.in);
      const auto expected = expected_grad(dtype, rows, kAllSlots, dy, c.out, x, c.in, start);
      for (const NamedTable& path : all_tables()) {
        for (const int threads : {1, 2}) {
          ThreadPool pool(threads);
          const Context context{&path.table, &pool, dtype};
          WeightGrad grad;
          grad.dy = dy.data();
          grad.out = c.out;
          grad.x = x.data();
          grad.in = c.in;
          EXPECT_EQ(run_grad(context, rows, grad, start), expected)
              << path.name << " " << c.out << " x " << c.in;
        }
      }
    }
  }
}

TEST(WeightGradTest, OneSlotSeesItsOwnSequencesUnderItsMask) {
  const int64_t out = 10, in = 37;
  const SlotTable rows({9, 4, 7}, {0, 1, 0});
  const int64_t n = rows.table.num_rows;
  constexpr uint64_t kKey = 5;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values dy = Values::random(dtype, n * out, 3, 1.0f);
    const Values x = Values::random(dtype, n * in, 4, 1.0f);
    const auto start = start_values(out * in);
    for (const float p : {0.0f, 0.4f}) {
      Values masked = x;
      for (const Segment& s : rows.segments) {
        for (int64_t r = s.row_begin; p > 0 && r < s.row_begin + s.num_rows; ++r) {
          const ComputeScope scope;
          std::vector<float> row;
          for (int64_t i = 0; i < in; ++i) row.push_back(static_cast<float>(x.get(r * in + i)));
          drop(kKey, p, s, r, row);
          for (int64_t i = 0; i < in; ++i) masked.set(r * in + i, row[static_cast<size_t>(i)]);
        }
      }
      const auto expected = expected_grad(dtype, rows, 0, dy, out, masked, in, start);
      for (const NamedTable& path : all_tables()) {
        ThreadPool pool(2);
        const Context context{&path.table, &pool, dtype};
        const WeightGrad grad{dy.data(), out, x.data(), in, nullptr, 0, p, kKey};
        EXPECT_EQ(run_grad(context, rows, grad, start), expected) << path.name << " p " << p;
      }
    }
  }
}

TEST(WeightGradTest, TwoCallsEqualOne) {
  const int64_t out = 19, in = 40;
  const SlotTable both({11, 600}, {-1, -1});
  const int64_t n = both.table.num_rows;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values dy = Values::random(dtype, n * out, 5, 1.0f);
    const Values x = Values::random(dtype, n * in, 6, 1.0f);
    const auto start = start_values(out * in);
    for (const NamedTable& path : all_tables()) {
      ThreadPool pool(2);
      const Context context{&path.table, &pool, dtype};
      const WeightGrad grad{dy.data(), out, x.data(), in, nullptr, kAllSlots, 0.0f, 0};
      SlotTable first({11}, {-1}), second({600}, {-1});
      second.segments[0].row_begin = 12;
      second.table.num_rows = both.table.num_rows;
      auto acc = run_grad(context, first, grad, start);
      acc = run_grad(context, second, grad, acc);
      EXPECT_EQ(acc, run_grad(context, both, grad, start)) << path.name;
    }
  }
}

TEST(WeightGradTest, TheBiasAddsOneTokenAtATime) {
  const int64_t out = 150;
  const SlotTable rows({3, 6}, {-1, -1});
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Values dy = Values::random(dtype, rows.table.num_rows * out, 7, 1.0f);
    const auto start = start_values(out);
    auto expected = start;
    for (int64_t o = 0; o < out; ++o) {
      for (const int64_t r : {0, 1, 2, 4, 5, 6, 7, 8, 9}) {
        expected[static_cast<size_t>(o)] += static_cast<float>(dy.get(r * out + o));
      }
    }
    for (const NamedTable& path : all_tables()) {
      ThreadPool pool(2);
      auto acc = start;
      bias_grad({&path.table, &pool, dtype}, out, dy.data(), acc.data(), rows.table);
      EXPECT_EQ(acc, expected) << path.name;
    }
  }
}

}  // namespace
}  // namespace mainspring::cpu

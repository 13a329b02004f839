#include <gtest/gtest.h>

#include "mainspring/exec/cpu/dropout.h"
#include "mainspring/exec/cpu/linear_test_util.h"

namespace mainspring::cpu {
namespace {

constexpr uint64_t kKey = 0x123456789abcdefULL;

/// x with the dropout mask of each row of `slot` applied, rounded.
Values dropped(DType dtype, const Values& x, int64_t width, const SlotTable& rows, int32_t slot,
               float p) {
  const ComputeScope scope;
  Values out = x;
  for (int64_t r = 0; r < rows.table.num_rows; ++r) {
    if (rows.slot_of(r, -2) != slot) continue;
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t i = 0; i < width; ++i)
      row[static_cast<size_t>(i)] = static_cast<float>(x.get(r * width + i));
    DropoutRow(kKey, p, segment_of(rows.table, r), r).apply(0, width, row.data());
    for (int64_t i = 0; i < width; ++i) out.set(r * width + i, row[static_cast<size_t>(i)]);
  }
  (void)dtype;
  return out;
}

TEST(LoraTest, TheWayDownScalesAfterTheReductionAndLeavesOtherRowsAlone) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t rank : {1, 16, 40}) {
      for (const float p : {0.0f, 0.3f}) {
        const SlotTable rows({9, 5, 30}, {0, 1, 0});
        const int64_t n = rows.table.num_rows, in = 301;
        const Values x = Values::random(dtype, n * in, 1, 1.0f);
        const Values a = Values::random(dtype, rank * in, 2, 1.0f);
        const Values masked = p > 0 ? dropped(dtype, x, in, rows, 0, p) : x;
        const Values before = Values::random(dtype, n * rank, 3, 1.0f);
        std::vector<float> expected;
        {
          const ComputeScope scope;
          for (int64_t r = 0; r < n; ++r) {
            for (int64_t j = 0; j < rank; ++j) {
              const float sum = chunked_dot(dtype, {{{&masked, r * in}, {&a, j * in}, in}});
              expected.push_back(rows.slot_of(r, -2) == 0
                                     ? 1.5f * sum + 0.0f
                                     : static_cast<float>(before.get(r * rank + j)));
            }
          }
        }
        for (const NamedTable& path : all_tables()) {
          ThreadPool pool(2);
          const Context context{&path.table, &pool, dtype};
          const TestWeight weight(context, a, rank, in);
          Values u = before;
          const LoraDown lora{0, rank, 1.5f, p, kKey, weight.packed, u.data()};
          auto scratch = scratch_of(lora_down_scratch_bytes(context, n, in));
          lora_down(context, n, in, x.data(), lora, rows.table, aligned(scratch));
          EXPECT_EQ(u, stored(dtype, expected)) << path.name << " rank " << rank << " p " << p;
        }
      }
    }
  }
}

TEST(LoraTest, TheGradientOfTheWayUpFollowsRule5) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t out : {33, 576, 1100}) {
      const int64_t rank = 20;
      const SlotTable rows({4, 15, 3}, {1, 0, 1});
      const int64_t n = rows.table.num_rows;
      const Values dy = Values::random(dtype, n * out, 4, 1.0f);
      const Values b = Values::random(dtype, out * rank, 5, 1.0f);
      const Values before = Values::random(dtype, n * rank, 6, 1.0f);
      std::vector<float> expected;
      {
        const ComputeScope scope;
        for (int64_t r = 0; r < n; ++r) {
          for (int64_t j = 0; j < rank; ++j) {
            const float sum = chunked_dot(dtype, {{{&dy, r * out}, {&b, j, rank}, out}});
            expected.push_back(rows.slot_of(r, -2) == 1
                                   ? 2.0f * sum + 0.0f
                                   : static_cast<float>(before.get(r * rank + j)));
          }
        }
      }
      for (const NamedTable& path : all_tables()) {
        ThreadPool pool(2);
        const Context context{&path.table, &pool, dtype};
        const TestWeight weight(context, b, out, rank);
        Values du = before;
        const LoraUpGrad lora{1, rank, 2.0f, weight.packed, du.data()};
        lora_up_input_grad(context, n, out, dy.data(), lora, rows.table, nullptr);
        EXPECT_EQ(du, stored(dtype, expected)) << path.name << " out " << out;
      }
    }
  }
}

TEST(LoraTest, TheInputGradientAddsAdaptersUnderTheForwardsMask) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const int64_t out = 40, in = 70, rank = 9;
    const float p = 0.25f;
    const SlotTable rows({6, 5}, {0, 1});
    const int64_t n = rows.table.num_rows;
    const Values dy = Values::random(dtype, n * out, 7, 1.0f);
    const Values w = Values::random(dtype, out * in, 8, 1.0f);
    const Values du = Values::random(dtype, n * rank, 9, 1.0f);
    const Values a = Values::random(dtype, rank * in, 10, 1.0f);
    std::vector<float> expected;
    {
      const ComputeScope scope;
      for (int64_t r = 0; r < n; ++r) {
        std::vector<float> branch;
        for (int64_t j = 0; j < in; ++j) {
          branch.push_back(fold(dtype, {&du, r * rank}, {&a, j, in}, 0, rank, 0.0f) + 0.0f);
        }
        const int32_t slot = rows.slot_of(r, -2);
        if (slot == 1)
          DropoutRow(kKey, p, segment_of(rows.table, r), r).apply(0, in, branch.data());
        for (int64_t j = 0; j < in; ++j) {
          float sum = chunked_dot(dtype, {{{&dy, r * out}, {&w, j, in}, out}});
          if (slot == 1) sum += branch[static_cast<size_t>(j)];
          expected.push_back(slot == -2 ? 0.0f : sum + 0.0f);
        }
      }
    }
    for (const NamedTable& path : all_tables()) {
      ThreadPool pool(2);
      const Context context{&path.table, &pool, dtype};
      const TestWeight weight(context, w, out, in), a_weight(context, a, rank, in);
      Values dx(dtype, n * in);
      const LinearInputGradTerm term{dy.data(), weight.packed};
      const LoraInputGradTerm adapter{1, rank, p, kKey, du.data(), a_weight.packed};
      auto scratch = scratch_of(linear_input_grad_scratch_bytes(context, n, in, out));
      linear_input_grad(context, n, in, {&term, 1}, {&adapter, 1}, dx.data(), rows.table,
                        aligned(scratch));
      EXPECT_EQ(dx, stored(dtype, expected)) << path.name;
    }
  }
}

TEST(DropoutTest, TheMaskDependsOnTheSampleItsEpochAndPositionOnly) {
  Segment at_zero, moved;
  at_zero.num_rows = moved.num_rows = 8;
  at_zero.sample_index = moved.sample_index = 77;
  moved.row_begin = 20;
  std::vector<float> a(37, 1.0f), b(37, 1.0f), next(37, 1.0f), epoch(37, 1.0f);
  DropoutRow(kKey, 0.5f, at_zero, 3).apply(0, 37, a.data());
  const DropoutRow same(kKey, 0.5f, moved, 23);
  same.apply(0, 6, b.data());  // in two uneven parts
  same.apply(6, 31, b.data() + 6);
  EXPECT_EQ(a, b);
  DropoutRow(kKey, 0.5f, moved, 24).apply(0, 37, next.data());
  EXPECT_NE(a, next);
  moved.epoch = 1;
  DropoutRow(kKey, 0.5f, moved, 23).apply(0, 37, epoch.data());
  EXPECT_NE(a, epoch);
}

TEST(DropoutTest, KeepsItsShareAndScalesIt) {
  Segment segment;
  segment.num_rows = 1;
  std::vector<float> x(40000, 1.0f);
  DropoutRow(kKey, 0.2f, segment, 0).apply(0, 40000, x.data());
  const auto kept = std::count(x.begin(), x.end(), 1.0f / (1.0f - 0.2f));
  EXPECT_EQ(std::count(x.begin(), x.end(), 0.0f), 40000 - kept);
  EXPECT_NEAR(static_cast<double>(kept), 32000.0, 5 * 80.0);  // 5 standard deviations
}

}  // namespace
}  // namespace mainspring::cpu

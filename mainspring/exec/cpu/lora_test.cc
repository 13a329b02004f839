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
    drop(kKey, p, segment_of(rows.table, r), r, row);
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
        if (slot == 1) drop(kKey, p, segment_of(rows.table, r), r, branch);
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

/// 37 ones of `row` under the mask, in two parts.
std::vector<float> masked_ones(const Segment& segment, int64_t row) {
  std::vector<float> x(37, 1.0f);
  const LinearKernels& kernels = kernel_table(Isa::kScalar).linear->f32;
  DropoutRows rows(kKey, 0.5f);
  rows.add(segment, row);
  rows.apply(kernels, 0, 8, x.data(), 37);
  rows.apply(kernels, 8, 29, x.data() + 8, 37);
  return x;
}

TEST(DropoutTest, TheMaskDependsOnTheSampleItsEpochAndPositionOnly) {
  Segment at_zero, moved;
  at_zero.num_rows = moved.num_rows = 8;
  at_zero.sample_index = moved.sample_index = 77;
  moved.row_begin = 20;
  const auto mask = masked_ones(at_zero, 3);
  EXPECT_EQ(masked_ones(moved, 23), mask);
  EXPECT_NE(masked_ones(moved, 24), mask);
  moved.epoch = 1;
  EXPECT_NE(masked_ones(moved, 23), mask);
}

TEST(DropoutTest, EveryPathMakesTheMaskOfTheRule) {
  Segment segment;
  segment.num_rows = 20;
  segment.sample_index = (5ull << 32) | 9;
  segment.position = 3;
  for (const NamedTable& path : all_tables()) {
    for (const int64_t columns : {1, 16, 64, 67}) {
      std::vector<float> x(static_cast<size_t>(7 * columns)), expected = x;
      DropoutRows rows(kKey, 0.3f);
      for (int64_t r = 0; r < 7; ++r) {
        std::vector<float> row(static_cast<size_t>(columns), static_cast<float>(r + 1));
        std::copy(row.begin(), row.end(), x.begin() + r * columns);
        if (r != 4) drop(kKey, 0.3f, segment, r, row);
        std::copy(row.begin(), row.end(), expected.begin() + r * columns);
        r != 4 ? rows.add(segment, r) : rows.skip();
      }
      rows.apply(path.table.linear->f32, 0, columns, x.data(), columns);
      EXPECT_EQ(x, expected) << path.name << " " << columns;
    }
  }
}

TEST(DropoutTest, KeepsItsShareAndScalesIt) {
  Segment segment;
  segment.num_rows = 1;
  std::vector<float> x(40000, 1.0f);
  drop(kKey, 0.2f, segment, 0, x);
  const auto kept = std::count(x.begin(), x.end(), 1.0f / (1.0f - 0.2f));
  EXPECT_EQ(std::count(x.begin(), x.end(), 0.0f), 40000 - kept);
  EXPECT_NEAR(static_cast<double>(kept), 32000.0, 5 * 80.0);  // 5 standard deviations
}

}  // namespace
}  // namespace mainspring::cpu

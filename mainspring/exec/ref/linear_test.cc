#include "mainspring/exec/ref/dropout.h"
#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

LinearAttrs with_adapter(LoraAttrs lora) {
  LinearAttrs attrs;
  attrs.adapters = {lora};
  return attrs;
}

TEST(RefLinearTest, TwoWeightsShareAnInputAndEachHasItsBias) {
  LinearAttrs attrs;
  attrs.num_weights = 2;
  attrs.has_bias = true;
  const auto out = run_op(OpKind::kLinear, attrs,
                          {f32({kRows, 2}, {1, 2}), f32({1, 2}, {3, 4}), f32({2, 2}, {1, 0, 0, 1}),
                           f32({1}, {10}), f32({2}, {20, 30})},
                          one_sequence(1));
  expect_close(out[0], {21});      // 1*3 + 2*4 + 10
  expect_close(out[1], {21, 32});  // 1 + 20, 2 + 30
}

TEST(RefLinearTest, PaddingRowsAreZeroWhateverTheBias) {
  LinearAttrs attrs;
  attrs.has_bias = true;
  OpRun run{.segments = {{.num_rows = 1}}, .rows = 2};
  const auto out = run_op(OpKind::kLinear, attrs,
                          {f32({kRows, 1}, {1, 1}), f32({1, 1}, {2}), f32({1}, {5})}, run);
  expect_close(out[0], {7, 0});
}

TEST(RefLinearTest, AdapterChangesRowsOfItsSlotOnly) {
  OpRun run{.segments = {{.num_rows = 2, .adapter_slot = 1},
                         {.row_begin = 2, .num_rows = 2, .adapter_slot = 0}},
            .rows = 4};
  const auto out = run_op(
      OpKind::kLinear, with_adapter({.output = 0, .slot = 1, .rank = 1, .scale = 2}),
      {f32({kRows, 1}, {1, 2, 3, 4}), f32({1, 1}, {10}), f32({1, 1}, {3}), f32({1, 1}, {5})}, run);
  expect_close(out[0], {40, 80, 30, 40});  // 10 x, and 2 * 3x * 5 in slot 1
  expect_close(out[1], {6, 12, 0, 0});     // u = 2 * 3x
}

TEST(RefLinearTest, InputGradSumsWeightsAndAdapters) {
  LinearAttrs attrs = with_adapter({.output = 0, .slot = 0, .rank = 1, .scale = 1});
  attrs.num_weights = 2;
  OpRun run{.segments = {{.num_rows = 1, .adapter_slot = 0}}, .rows = 1};
  const auto out = run_op(OpKind::kLinearInputGrad, attrs,
                          {f32({kRows, 1}, {2}), f32({kRows, 1}, {3}), f32({1, 2}, {1, 10}),
                           f32({1, 2}, {100, 1000}), f32({kRows, 1}, {7}), f32({1, 2}, {1, 2})},
                          run);
  expect_close(out[0], {2 + 300 + 7, 20 + 3000 + 14});
}

TEST(RefLinearTest, WeightGradAddsToItsAccumulatorForItsSlot) {
  OpRun run{.segments = {{.num_rows = 1, .adapter_slot = 0},
                         {.row_begin = 2, .num_rows = 1, .adapter_slot = 3}},
            .rows = 4};
  const std::vector<Arg> args{f32({kRows, 1}, {2, 9, 5, 9}),
                              f32({kRows, 2}, {1, 2, 9, 9, 3, 4, 9, 9}), state({1, 2}, {100, 200})};
  expect_close(run_op(OpKind::kLinearWeightGrad, WeightGradAttrs{}, args, run)[0],
               {100 + 2 + 15, 200 + 4 + 20});
  expect_close(run_op(OpKind::kLinearWeightGrad, WeightGradAttrs{.slot = 3}, args, run)[0],
               {115, 220});
}

TEST(RefLinearTest, LoraUpGradScalesTheProductWithB) {
  OpRun run{.segments = {{.num_rows = 1, .adapter_slot = 0}}, .rows = 2};
  const auto out = run_op(OpKind::kLoraUpGrad, LoraAttrs{.slot = 0, .rank = 1, .scale = 0.5f},
                          {f32({kRows, 2}, {1, 2, 9, 9}), f32({2, 1}, {10, 20})}, run);
  expect_close(out[0], {25, 0});  // 0.5 * (10 + 40)
}

TEST(RefLinearTest, BiasGradSumsRowsOfSegments) {
  OpRun run{.segments = {{.num_rows = 3}}, .rows = 4};
  const auto out =
      run_op(OpKind::kBiasGrad, NoAttrs{}, {f32({kRows, 1}, {1, 2, 3, 99}), state({1}, {10})}, run);
  expect_close(out[0], {16});
}

TEST(RefLinearTest, DropoutKeepsTheSameChannelsForwardAndBackward) {
  const LoraAttrs lora{.slot = 0, .rank = 1, .scale = 1, .dropout = 0.5f, .dropout_key = 9};
  const Segment segment{.num_rows = 1, .position = 0, .adapter_slot = 0, .sample_index = 4};
  OpRun run{.segments = {segment}, .rows = 1};
  std::vector<double> mask(8, 1.0);
  apply_dropout({0.5f, 9}, segment, 0, mask);
  double kept = 0;
  for (double m : mask) kept += m;
  ASSERT_GT(kept, 0);  // neither all kept nor all dropped, or the test would say nothing
  ASSERT_LT(kept, 16);
  const std::vector<double> ones(8, 1.0), zeros(8, 0.0);
  const auto y =
      run_op(OpKind::kLinear, with_adapter(lora),
             {f32({kRows, 8}, ones), f32({1, 8}, zeros), f32({1, 8}, ones), f32({1, 1}, {1})}, run);
  expect_close(y[0], {kept});
  const auto dx = run_op(
      OpKind::kLinearInputGrad, with_adapter(lora),
      {f32({kRows, 1}, {1}), f32({1, 8}, zeros), f32({kRows, 1}, {1}), f32({1, 8}, ones)}, run);
  expect_close(dx[0], mask);
  const auto da = run_op(OpKind::kLinearWeightGrad,
                         WeightGradAttrs{.slot = 0, .x_dropout = 0.5f, .dropout_key = 9},
                         {f32({kRows, 1}, {1}), f32({kRows, 8}, ones), state({1, 8}, zeros)}, run);
  expect_close(da[0], mask);
}

TEST(RefLinearTest, RoundingIsAtTheOpsBorder) {
  OpRun run = one_sequence(1);
  run.compute = DType::kBF16;
  run.options.round_to_compute = true;
  Arg x = f32({kRows, 2}, {1, 0x1p-9});  // 1 + 2^-9 needs 10 bits
  x.type.dtype = DType::kBF16;
  const auto out = run_op(OpKind::kLinear, LinearAttrs{}, {x, f32({1, 2}, {1, 1})}, run);
  expect_close(out[0], {1});
}

}  // namespace
}  // namespace mainspring::ref

#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

TEST(RefOptimizerTest, SumOfSquaresRunsOverAllGradients) {
  expect_close(run_op(OpKind::kSumOfSquares, NoAttrs{},
                      {state({2}, {1, 2}), state({2, 2}, {3, 0, 0, 1})}, one_sequence(0))[0],
               {15});
}

TEST(RefOptimizerTest, AdamwFirstStepMovesByTheLearningRate) {
  // grad 4 * 0.5 = 2; m = 0.1 * 2, v = 0.01 * 4; corrected m = 2, sqrt(v) = 2; decay 1 - 0.1 * 0.5
  const auto out = run_op(OpKind::kAdamw, NoAttrs{},
                          {state({1}, {10}), state({1}, {0}), state({1}, {0}), state({1}, {4}),
                           f32({8}, {0.1, 0.9, 0.99, 0, 0.5, 0.1, 0.1, 0.5})},
                          one_sequence(0));
  expect_close(out[0], {9.5 - 0.1});
  expect_close(out[1], {0.2});
  expect_close(out[2], {0.04});
}

}  // namespace
}  // namespace mainspring::ref

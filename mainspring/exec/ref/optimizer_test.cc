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

TEST(RefOptimizerTest, LionStepsByTheSignOfItsBlend) {
  // grads 4 * 0.5 = 2; c = 0.5 m + 0.5 * 2: -0.5, 0, 2; decay 1 - 0.1 * 0.5; m' = 0.75 m + 0.25 * 2
  const auto out = run_op(OpKind::kLion, NoAttrs{},
                          {state({3}, {10, 10, 10}), state({3}, {-3, -2, 2}), state({3}, {4, 4, 4}),
                           f32({8}, {0.1, 0.5, 0.75, 0.5, 0.5, 0, 0, 0})},
                          one_sequence(0));
  expect_close(out[0], {9.5 + 0.1, 9.5, 9.5 - 0.1});
  expect_close(out[1], {-1.75, -1, 2});
}

TEST(RefOptimizerTest, AdafactorFactorsTheSecondMoment) {
  // rate 1: rows (1 + 9) / 2 and (4 + 36) / 2, columns (1 + 4) / 2 and (9 + 36) / 2, mean row 12.5:
  // r c / mean = g^2, so the direction is 1 and the step rho times the parameter's size, 2.
  const auto out =
      run_op(OpKind::kAdafactor, NoAttrs{},
             {state({2, 2}, {2, -2, 2, 2}), state({2}, {7, 7}), state({2}, {7, 7}),
              state({2, 2}, {1, 3, 2, -6}), f32({8}, {0.1, 0, 0.125, 1, 1e-7, 1e-3, 1, 1})},
             one_sequence(0));
  expect_close(out[0], {1.75, -2.25, 1.75, 2.25});
  expect_close(out[1], {5, 20});
  expect_close(out[2], {2.5, 22.5});
}

TEST(RefOptimizerTest, MuonOnOneNumberIteratesItsPolynomial) {
  // x = 1; five times x = 3.4445 x - 4.775 x^3 + 2.0315 x^5: 0.701, 1.1136, 0.7207, 1.0900, 0.69644
  const auto out = run_op(OpKind::kMuon, MuonAttrs{DType::kF32, true, 2.0f},
                          {state({1, 1}, {10}), state({1, 1}, {0}), state({1, 1}, {4}),
                           f32({8}, {0.1, 0.5, 0.9, 0.5, 0, 0, 0, 0})},
                          one_sequence(0));
  EXPECT_NEAR(out[0][0], 9.5 - 0.2 * 0.6964364094697522, 1e-6);
  expect_close(out[1], {0.2});
}

}  // namespace
}  // namespace mainspring::ref

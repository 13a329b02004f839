#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

TEST(RefNormTest, EachGroupIsDividedByItsOwnRootMeanSquare) {
  // groups (3, 4) and (0, 2): mean squares 12.5 and 2
  const auto out = run_op(OpKind::kRmsNorm, NormAttrs{2, 0},
                          {f32({kRows, 4}, {3, 4, 0, 2}), f32({2}, {1, 10})}, one_sequence(1));
  expect_close(out[0], {3 / std::sqrt(12.5), 40 / std::sqrt(12.5), 0, 20 / std::sqrt(2.0)});
}

TEST(RefNormTest, EpsKeepsZeroRowsZero) {
  const auto out = run_op(OpKind::kRmsNorm, NormAttrs{2, 1e-6f},
                          {f32({kRows, 2}, {0, 0}), f32({2}, {1, 1})}, one_sequence(1));
  expect_close(out[0], {0, 0});
}

TEST(RefNormTest, GradientIsOrthogonalToTheRowWithoutEps) {
  // y does not change along x, so dx . x = 0
  const auto out = run_op(
      OpKind::kRmsNormGrad, NormAttrs{2, 0},
      {f32({kRows, 2}, {3, 4}), f32({2}, {1, 2}), f32({kRows, 2}, {5, -7}), state({2}, {100, 200})},
      one_sequence(1));
  EXPECT_NEAR(out[0][0] * 3 + out[0][1] * 4, 0, 64 * 0x1p-52);
  expect_close(out[1], {100 + 15 / std::sqrt(12.5), 200 - 28 / std::sqrt(12.5)});
}

TEST(RefNormTest, AWeightStoredWithoutItsOneGetsIt) {
  const auto out = run_op(OpKind::kRmsNorm, NormAttrs{2, 0, true},
                          {f32({kRows, 2}, {3, 4}), f32({2}, {0, 9})}, one_sequence(1));
  expect_close(out[0], {3 / std::sqrt(12.5), 40 / std::sqrt(12.5)});
}

TEST(RefNormTest, LayerNormTakesTheMeanAway) {
  // mean 3, variance 4: h = (-1, 1)
  const auto out =
      run_op(OpKind::kLayerNorm, NormAttrs{2, 0},
             {f32({kRows, 2}, {1, 5}), f32({2}, {2, 3}), f32({2}, {10, 20})}, one_sequence(1));
  expect_close(out[0], {8, 23});
}

TEST(RefNormTest, LayerNormsGradientIsOrthogonalToOnesAndToTheRow) {
  // h = (-1, 1) * sqrt(3 / 2) and 0 for the row (1, 5, 3)
  const auto out = run_op(OpKind::kLayerNormGrad, NormAttrs{3, 0},
                          {f32({kRows, 3}, {1, 5, 3}), f32({3}, {1, 2, 3}),
                           f32({kRows, 3}, {5, -7, 2}), state({3}, {100, 200, 300})},
                          one_sequence(1));
  EXPECT_NEAR(out[0][0] + out[0][1] + out[0][2], 0, 64 * 0x1p-52);
  EXPECT_NEAR(out[0][0] - out[0][1], 0, 64 * 0x1p-52);
  expect_close(out[1], {100 - 5 * std::sqrt(1.5), 200 - 7 * std::sqrt(1.5), 300});
}

}  // namespace
}  // namespace mainspring::ref

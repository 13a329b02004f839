#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

constexpr double kLog3 = 1.0986122886681098;  // sigmoid(log 3) = 3/4, its slope 3/16

TEST(RefElementwiseTest, SiluAndItsGradient) {
  expect_close(run_op(OpKind::kSilu, NoAttrs{}, {f32({kRows, 2}, {0, kLog3})}, one_sequence(1))[0],
               {0, 0.75 * kLog3});
  expect_close(run_op(OpKind::kSiluGrad, NoAttrs{},
                      {f32({kRows, 2}, {0, kLog3}), f32({kRows, 2}, {2, 2})}, one_sequence(1))[0],
               {1, 2 * (0.75 + kLog3 * 3 / 16)});
}

TEST(RefElementwiseTest, SiluMulIsItsParts) {
  expect_close(run_op(OpKind::kSiluMul, NoAttrs{}, {f32({kRows, 1}, {kLog3}), f32({kRows, 1}, {8})},
                      one_sequence(1))[0],
               {6 * kLog3});
  const auto grads = run_op(OpKind::kSiluMulGrad, NoAttrs{},
                            {f32({kRows, 1}, {kLog3}), f32({kRows, 1}, {8}), f32({kRows, 1}, {2})},
                            one_sequence(1));
  expect_close(grads[0], {16 * (0.75 + kLog3 * 3 / 16)});
  expect_close(grads[1], {1.5 * kLog3});
}

TEST(RefElementwiseTest, MulAddScale) {
  const std::vector<Arg> args{f32({kRows, 2}, {2, 3}), f32({kRows, 2}, {5, 7})};
  expect_close(run_op(OpKind::kMul, NoAttrs{}, args, one_sequence(1))[0], {10, 21});
  expect_close(run_op(OpKind::kAdd, NoAttrs{}, args, one_sequence(1))[0], {7, 10});
  expect_close(run_op(OpKind::kScale, ScalarAttrs{0.5f}, {args[0]}, one_sequence(1))[0], {1, 1.5});
}

TEST(RefElementwiseTest, FillAndReduceSumCountPicks) {
  OpRun run = one_sequence(4);
  run.picked = {0, 3, 2};
  expect_close(run_op(OpKind::kFill, ScalarAttrs{2}, {}, run)[0], {2, 2, 2});
  expect_close(run_op(OpKind::kReduceSum, NoAttrs{}, {f32({kPicked}, {1, 2, 4})}, run)[0], {7});
}

// gelu's tanh at x = 1 is of sqrt(2 / pi) * 1.044715.
TEST(RefElementwiseTest, GeluAndItsGradient) {
  const double t = std::tanh(0.7978845608028654 * 1.044715);
  const double slope = 0.7978845608028654 * (1 + 3 * 0.044715);
  expect_close(run_op(OpKind::kGelu, NoAttrs{}, {f32({kRows, 2}, {0, 1})}, one_sequence(1))[0],
               {0, 0.5 * (1 + t)});
  const double derivative = 0.5 * (1 + t) + 0.5 * (1 - t * t) * slope;
  expect_close(run_op(OpKind::kGeluGrad, NoAttrs{},
                      {f32({kRows, 2}, {0, 1}), f32({kRows, 2}, {2, 2})}, one_sequence(1))[0],
               {1, 2 * derivative});
  const auto grads =
      run_op(OpKind::kGeluMulGrad, NoAttrs{},
             {f32({kRows, 1}, {1}), f32({kRows, 1}, {8}), f32({kRows, 1}, {2})}, one_sequence(1));
  expect_close(grads[0], {16 * derivative});
  expect_close(grads[1], {1 + t});
}

// tanh(log(3) / 2) = 1/2
TEST(RefElementwiseTest, SoftCapBendsTowardsTheCap) {
  OpRun run = one_sequence(1);
  run.picked = {0};
  expect_close(
      run_op(OpKind::kSoftCap, ScalarAttrs{4}, {f32({kPicked, 2}, {2 * kLog3, -1e6})}, run)[0],
      {2, -4});
}

}  // namespace
}  // namespace mainspring::ref

#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

constexpr double kLog3 = 1.0986122886681098;

// Logits (0, log 3): probabilities 1/4 and 3/4, lse log 4.
OpRun two_picks() {
  OpRun run = one_sequence(2);
  run.picked = {1, -1};
  return run;
}
const Arg kX = f32({kPicked, 1}, {kLog3, 0});
const Arg kHead = f32({2, 1}, {0, 1});

TEST(RefHeadTest, LogprobIsLogitMinusLogSumExpAndZeroForZeroRows) {
  const auto out =
      run_op(OpKind::kHeadLogprob, HeadAttrs{}, {kX, kHead, i32({kPicked}, {0, 0})}, two_picks());
  expect_close(out[0], {-2 * std::log(2), 0});
  expect_close(out[1], {2 * std::log(2), 0});
}

TEST(RefHeadTest, GradientIsWeightTimesOnehotMinusProbability) {
  const auto out = run_op(OpKind::kHeadLogprobGrad, HeadAttrs{},
                          {kX, kHead, i32({kPicked}, {0, 0}), f32({kPicked}, {2 * std::log(2), 0}),
                           f32({kPicked}, {8, 8}), state({2, 1}, {100, 200})},
                          two_picks());
  // dlogits = 8 * (1 - 1/4, -3/4) = (6, -6)
  expect_close(out[0], {-6, 0});
  expect_close(out[1], {100 + 6 * kLog3, 200 - 6 * kLog3});
}

}  // namespace
}  // namespace mainspring::ref

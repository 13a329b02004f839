#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

OpRun picking(std::vector<int32_t> picked) {
  OpRun run = one_sequence(3);
  run.picked = std::move(picked);
  return run;
}

TEST(RefRowsTest, GatherTakesPickedRowsAndZeros) {
  const auto out =
      run_op(OpKind::kGatherRows, NoAttrs{}, {f32({kRows, 1}, {1, 2, 3})}, picking({2, 0, -1, 1}));
  expect_close(out[0], {3, 1, 0, 2});
}

TEST(RefRowsTest, ScatterPutsThemBack) {
  const auto out =
      run_op(OpKind::kScatterRows, NoAttrs{}, {f32({kPicked, 1}, {5, 99})}, picking({2, -1}));
  expect_close(out[0], {0, 0, 5});
}

}  // namespace
}  // namespace mainspring::ref

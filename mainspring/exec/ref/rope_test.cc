#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

// Position p turns pair 0 by 90 degrees p times and leaves pair 1 alone.
const std::vector<double> kTable{1, 0, 1, 0, 0, 1, 1, 0, -1, 0, 1, 0};

TEST(RefRopeTest, TurnsElementIWithElementIPlusHalf) {
  OpRun run{.segments = {{.num_rows = 2, .position = 1}}, .rows = 2};
  const auto out = run_op(OpKind::kRope, RopeAttrs{1, 4, false},
                          {f32({kRows, 4}, {1, 2, 3, 4, 1, 2, 3, 4}), f32({3, 2, 2}, kTable)}, run);
  expect_close(out[0], {-3, 2, 1, 4, -1, 2, -3, 4});  // positions 1 and 2
}

TEST(RefRopeTest, InverseTurnsBack) {
  OpRun run{.segments = {{.num_rows = 1, .position = 1}}, .rows = 1};
  const auto out = run_op(OpKind::kRope, RopeAttrs{1, 4, true},
                          {f32({kRows, 4}, {-3, 2, 1, 4}), f32({3, 2, 2}, kTable)}, run);
  expect_close(out[0], {1, 2, 3, 4});
}

}  // namespace
}  // namespace mainspring::ref

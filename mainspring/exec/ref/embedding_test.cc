#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

TEST(RefEmbeddingTest, TakesRowsByTokenAndZeroesPadding) {
  OpRun run{.segments = {{.num_rows = 3}}, .rows = 4};
  const auto out = run_op(OpKind::kEmbedding, NoAttrs{},
                          {i32({kRows}, {1, 0, 1, 1}), f32({2, 2}, {1, 2, 3, 4})}, run);
  expect_close(out[0], {3, 4, 1, 2, 3, 4, 0, 0});
}

TEST(RefEmbeddingTest, GradientAddsRowsOfRepeatedTokens) {
  OpRun run{.segments = {{.num_rows = 3}}, .rows = 4};
  const auto out = run_op(
      OpKind::kEmbeddingGrad, NoAttrs{},
      {i32({kRows}, {1, 0, 1, 1}), f32({kRows, 1}, {1, 2, 4, 99}), state({2, 1}, {10, 20})}, run);
  expect_close(out[0], {12, 25});
}

TEST(RefEmbeddingTest, TakesRowsByPosition) {
  OpRun run{.segments = {{.num_rows = 2}, {.row_begin = 2, .num_rows = 1}}, .rows = 4};
  const auto out = run_op(OpKind::kPositionEmbedding, NoAttrs{}, {f32({3, 1}, {1, 2, 3})}, run);
  expect_close(out[0], {1, 2, 1, 0});
  const auto grad = run_op(OpKind::kPositionEmbeddingGrad, NoAttrs{},
                           {f32({kRows, 1}, {1, 2, 4, 99}), state({3, 1}, {10, 20, 30})}, run);
  expect_close(grad[0], {15, 22, 30});
}

}  // namespace
}  // namespace mainspring::ref

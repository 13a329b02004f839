#include "mainspring/exec/ref/op_test_util.h"

namespace mainspring::ref {
namespace {

constexpr double kLog3 = 1.0986122886681098;

// One head of width 2; the second key scores log 3 for a query of (1, 0).
const Arg kQ = f32({kRows, 2}, {1, 0, 1, 0});
const Arg kK = f32({kRows, 2}, {0, 0, kLog3, 0});
const Arg kV = f32({kRows, 2}, {4, 0, 0, 8});
const AttentionAttrs kOneHead{1, 1, 2, 1.0f, 0, 0};

TEST(RefAttentionTest, FirstRowSeesItselfAndSecondRowBoth) {
  const auto out = run_op(OpKind::kAttention, kOneHead, {kQ, kK, kV}, one_sequence(2));
  expect_close(out[0], {4, 0, 1, 6});  // weights 1; then 1/4 and 3/4
  expect_close(out[1], {0, std::log(4.0)});
}

TEST(RefAttentionTest, SequencesDoNotSeeEachOther) {
  OpRun run{.segments = {{.num_rows = 1}, {.row_begin = 1, .num_rows = 1}}, .rows = 2};
  expect_close(run_op(OpKind::kAttention, kOneHead, {kQ, kK, kV}, run)[0], {4, 0, 0, 8});
}

TEST(RefAttentionTest, WindowOfOneSeesOnlyItself) {
  AttentionAttrs attrs = kOneHead;
  attrs.window = 1;
  expect_close(run_op(OpKind::kAttention, attrs, {kQ, kK, kV}, one_sequence(2))[0], {4, 0, 0, 8});
}

TEST(RefAttentionTest, QueryHeadsShareKeyHeadsByGroups) {
  const AttentionAttrs attrs{4, 2, 1, 1.0f, 0, 0};
  const auto out =
      run_op(OpKind::kAttention, attrs,
             {f32({kRows, 4}, {1, 1, 1, 1}), f32({kRows, 2}, {0, 0}), f32({kRows, 2}, {5, 7})},
             one_sequence(1));
  expect_close(out[0], {5, 5, 7, 7});
}

TEST(RefAttentionTest, CachedDecodeEqualsTheWholeSequence) {
  std::vector<float> keys(2 * kPageTokens * 2), values(keys.size());  // two pages of one layer
  void* key_pages[] = {keys.data()};
  void* value_pages[] = {values.data()};
  const int32_t pages[] = {1};
  const KvSequence sequence{pages};
  const KvView kv{key_pages, value_pages, 2, {&sequence, 1}};
  const std::vector<double> q{1, 0}, first_k{0, 0}, first_v{4, 0}, second_v{0, 8};
  const std::vector<double> second_k{static_cast<float>(kLog3), 0};  // pages hold f32
  const auto step = [&](int32_t position, const std::vector<double>& k,
                        const std::vector<double>& v) {
    OpRun run{.segments = {{.num_rows = 1, .position = position, .cache_sequence = 0}},
              .rows = 1,
              .kv = &kv};
    return run_op(OpKind::kAttention, kOneHead,
                  {f32({kRows, 2}, q), f32({kRows, 2}, k), f32({kRows, 2}, v)}, run)[0];
  };
  expect_close(step(0, first_k, first_v), {4, 0});
  const double p = 1 / (1 + std::exp(second_k[0]));
  expect_close(step(1, second_k, second_v), {4 * p, 8 * (1 - p)});
  EXPECT_EQ(keys[kPageTokens * 2 + 2], static_cast<float>(kLog3));  // page 1, position 1
}

TEST(RefAttentionTest, GradientsOfTwoKeys) {
  // Row 1: p = (1/4, 3/4), o = (1, 6); d_o = (1, 0): d_p = (4, 0), delta = 1, d_s = (3/4, -3/4).
  const auto out = run_op(OpKind::kAttentionGrad, kOneHead,
                          {kQ, kK, kV, f32({kRows, 2}, {4, 0, 1, 6}),
                           f32({kRows, 1}, {0, std::log(4.0)}), f32({kRows, 2}, {0, 0, 1, 0})},
                          one_sequence(2));
  expect_close(out[0], {0, 0, -0.75 * kLog3, 0});
  expect_close(out[1], {0.75, 0, -0.75, 0});
  expect_close(out[2], {0.25, 0, 0.75, 0});
}

}  // namespace
}  // namespace mainspring::ref

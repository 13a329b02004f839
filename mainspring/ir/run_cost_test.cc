#include "mainspring/ir/run_cost.h"

#include <gtest/gtest.h>

#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

constexpr int64_t kPage = 8;

Node& attention(Graph& graph, int64_t window) {
  const ValueType q{DType::kBF16, {{kRows, kPage}}};
  const ValueId a = graph.add_source(OpKind::kInput, "q", q);
  const ValueId b = graph.add_source(OpKind::kInput, "k", q);
  const ValueId c = graph.add_source(OpKind::kInput, "v", q);
  const AttentionAttrs attrs{.query_heads = 2, .kv_heads = 2, .head_width = 4, .window = window};
  EXPECT_TRUE(graph.add_node(OpKind::kAttention, {a, b, c}, attrs, "", -1, false).ok());
  return graph.mutable_nodes().back();
}

TEST(RunCost, AttentionCountsThePairsOfEachSegment) {
  Graph graph(DType::kBF16);
  const Node& node = attention(graph, 0);
  const Segment segments[] = {{.row_begin = 0, .num_rows = 3}, {.row_begin = 4, .num_rows = 5}};
  const RowTable table{9, segments, {}};
  // 1 + 2 + 3 and 1 + ... + 5 pairs, 4 FLOPs a pair and element of the 2 x 4 widths
  EXPECT_EQ(run_cost(graph, node, table).flops, 4.0 * (6 + 15) * 8);
  EXPECT_LT(run_cost(graph, node, table).flops, node_flops(graph, node, {.rows = 9, .picked = 0}));
}

TEST(RunCost, ALaterSegmentSeesTheEarlierKeysAndReadsThem) {
  Graph graph(DType::kBF16);
  const Node& node = attention(graph, 0);
  const Segment first{.row_begin = 0, .num_rows = 1, .position = 0};
  const Segment later{.row_begin = 0, .num_rows = 1, .position = 10};
  const RunCost a = run_cost(graph, node, {1, {&first, 1}, {}});
  const RunCost b = run_cost(graph, node, {1, {&later, 1}, {}});
  EXPECT_EQ(a.flops, 4.0 * 1 * 8);
  EXPECT_EQ(b.flops, 4.0 * 11 * 8);
  EXPECT_EQ(b.bytes - a.bytes, 2.0 * 10 * kPage * 2);  // keys and values, bf16
}

TEST(RunCost, AWindowLimitsBoth) {
  Graph graph(DType::kBF16);
  const Node& node = attention(graph, 4);
  const Segment later{.row_begin = 0, .num_rows = 1, .position = 10};
  const Segment first{.row_begin = 0, .num_rows = 1, .position = 0};
  const RunCost a = run_cost(graph, node, {1, {&later, 1}, {}});
  EXPECT_EQ(a.flops, 4.0 * 4 * 8);
  EXPECT_EQ(a.bytes - run_cost(graph, node, {1, {&first, 1}, {}}).bytes, 2.0 * 3 * kPage * 2);
}

TEST(RunCost, AnEmbeddingReadsTheRowsItLooksUp) {
  Graph graph(DType::kBF16);
  const ValueId tokens = graph.add_source(OpKind::kInput, "tokens", {DType::kI32, {{kRows}}});
  const ValueId table = graph.add_source(OpKind::kParam, "e", {DType::kF32, {{1000, 16}}});
  ASSERT_TRUE(graph.add_node(OpKind::kEmbedding, {tokens, table}, NoAttrs{}, "", -1, false).ok());
  // 3 tokens i32, 3 rows of 16 f32, 3 rows of 16 bf16
  EXPECT_EQ(run_cost(graph, graph.nodes().back(), {3, {}, {}}).bytes, 12.0 + 192.0 + 96.0);
}

TEST(RunCost, AQuantisedMatrixCountsAsItIsRead) {
  Graph graph(DType::kBF16);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {DType::kBF16, {{kRows, 64}}});
  const ValueId w = graph.add_source(OpKind::kParam, "w", {DType::kQ4_1, {{32, 64}}});
  ASSERT_TRUE(graph.add_node(OpKind::kLinear, {x, w}, LinearAttrs{}, "", -1, false).ok());
  EXPECT_EQ(run_cost(graph, graph.nodes().back(), {2, {}, {}}).bytes,
            2.0 * 64 * 2 + 32.0 * 64 * 2 + 2.0 * 32 * 2);
}

TEST(RunCost, OnlyTheOptimizersOpsTouchNoRow) {
  Graph graph(DType::kBF16);
  EXPECT_FALSE(touches_no_row(graph, attention(graph, 0)));
  const ValueId g = graph.add_source(OpKind::kState, "g", {DType::kF32, {{4, 4}}});
  ASSERT_TRUE(graph.add_node(OpKind::kSumOfSquares, {g}, NoAttrs{}, "", -1, false).ok());
  EXPECT_TRUE(touches_no_row(graph, graph.nodes().back()));
}

TEST(RunCost, KeptLogitsAreMovedNotComputedAgain) {
  constexpr int64_t kVocabulary = 32;
  Graph graph(DType::kBF16);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {DType::kBF16, {{kPicked, kPage}}});
  const ValueId w = graph.add_source(OpKind::kParam, "w", {DType::kBF16, {{kVocabulary, kPage}}});
  const ValueId t = graph.add_source(OpKind::kInput, "t", {DType::kI32, {{kPicked}}});
  ASSERT_TRUE(graph.add_node(OpKind::kHeadLogprob, {x, w, t}, HeadAttrs{}, "", -1, false).ok());
  const std::vector<ValueId> out = graph.nodes().back().outputs;
  ASSERT_TRUE(
      graph.add_node(OpKind::kHeadLogprobGrad, {x, w, t, out[1], out[0]}, HeadAttrs{}, "", -1, true)
          .ok());
  const Node& head = graph.nodes()[graph.nodes().size() - 2];
  const Node& grad = graph.nodes().back();
  const std::vector<int32_t> picked{0, 1, 2, 3, 4};
  const RowTable table{5, {}, picked};
  const double product = 2.0 * kVocabulary * kPage;  // of a pick
  EXPECT_EQ(run_cost(graph, head, table).flops, 5 * product);
  EXPECT_EQ(run_cost(graph, grad, table).flops, 2 * 5 * product);
  EXPECT_EQ(run_cost(graph, grad, table, 3).flops, (2 * 5 - 3) * product);
  EXPECT_EQ(run_cost(graph, grad, table, 100).flops, 5 * product);
  EXPECT_EQ(run_cost(graph, head, table, 100).flops, 5 * product);
  for (const Node* node : {&head, &grad}) {
    EXPECT_EQ(run_cost(graph, *node, table, 3).bytes,
              run_cost(graph, *node, table).bytes + 4.0 * 3 * kVocabulary);
  }
}

}  // namespace
}  // namespace mainspring

#include "mainspring/ir/passes/pass.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

// scale(fill), unread but for its first scale.
Graph small_graph() {
  Graph graph(DType::kF32);
  const ValueId one = graph.add_node(OpKind::kFill, {}, ScalarAttrs{1}, "", -1, true).value()[0];
  const ValueId y = graph.add_node(OpKind::kScale, {one}, ScalarAttrs{2}, "", -1, true).value()[0];
  graph.add_output("y", y);
  return graph;
}

TEST(RunPassesTest, EachPassIsTimedInOrder) {
  Graph graph = small_graph();
  PassTimes times;
  ASSERT_TRUE(run_passes(graph, {}, &times).ok());
  ASSERT_EQ(times.size(), 4u);
  EXPECT_EQ(times[0].first, "constant_folding");
  EXPECT_EQ(times[1].first, "fuse_gated_mul");
  EXPECT_EQ(times[2].first, "recompute");
  EXPECT_EQ(times[3].first, "dead_code");
  EXPECT_EQ(graph.nodes().size(), 1u);  // one fill of 2
}

TEST(RunPassesTest, DisabledPassesDoNotRun) {
  Graph graph = small_graph();
  PassTimes times;
  ASSERT_TRUE(run_passes(graph, {.disabled = {"constant_folding"}}, &times).ok());
  EXPECT_EQ(times.size(), 3u);
  EXPECT_EQ(graph.nodes().size(), 2u);
}

TEST(RunPassesTest, UnknownNamesAreRefusedWithTheNearestOne) {
  Graph graph = small_graph();
  const Status status = run_passes(graph, {.disabled = {"dead_cod"}}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "no pass is named 'dead_cod'; the nearest is 'dead_code'");
  EXPECT_EQ(graph.nodes().size(), 2u);  // nothing ran
}

TEST(RunPassesTest, BrokenGraphsNameThePass) {
  Graph graph = small_graph();
  graph.add_output("z", graph.add_value({DType::kF32, {{1}}}));
  const Status status = run_passes(graph, {}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "after pass constant_folding: graph output z is never made");
}

}  // namespace
}  // namespace mainspring

#include "mainspring/ir/passes/dead_code.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

constexpr DType kCompute = DType::kBF16;

ValueId add(Graph& graph, OpKind op, std::vector<ValueId> inputs) {
  return graph.add_node(op, std::move(inputs), NoAttrs{}, "", -1, false).value()[0];
}

TEST(DeadCodeTest, UnreadChainsGoAndReadOnesStay) {
  Graph graph(kCompute);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {kCompute, {{kRows, 4}}});
  const ValueId kept = add(graph, OpKind::kSilu, {x});
  const ValueId dead = add(graph, OpKind::kSilu, {kept});
  add(graph, OpKind::kMul, {dead, dead});
  graph.add_output("y", kept);
  DeadCode().run(graph);
  ASSERT_TRUE(verify(graph).ok());
  EXPECT_EQ(print(graph),
            "%0: bf16(rows, 4) = input() \"x\"\n"
            "%1: bf16(rows, 4) = silu(%0)\n"
            "return y = %1\n");
}

TEST(DeadCodeTest, StateWritersStayThoughNobodyReadsTheirResult) {
  Graph graph(kCompute);
  const ValueId dy = graph.add_source(OpKind::kInput, "dy", {kCompute, {{kRows, 4}}});
  const ValueId acc = graph.add_source(OpKind::kState, "acc", {DType::kF32, {{4}}});
  add(graph, OpKind::kBiasGrad, {dy, acc});
  DeadCode().run(graph);
  EXPECT_EQ(graph.nodes().size(), 3u);
}

TEST(DeadCodeTest, UnreadSourcesStay) {
  Graph graph(kCompute);
  graph.add_source(OpKind::kInput, "x", {kCompute, {{kRows, 4}}});
  DeadCode().run(graph);
  EXPECT_EQ(graph.nodes().size(), 1u);
}

}  // namespace
}  // namespace mainspring

#include "mainspring/ir/passes/constant_folding.h"

#include <cmath>

#include <gtest/gtest.h>

namespace mainspring {
namespace {

ValueId fill(Graph& graph, float value) {
  return graph.add_node(OpKind::kFill, {}, ScalarAttrs{value}, "", -1, true).value()[0];
}

ValueId scale(Graph& graph, ValueId x, float factor) {
  return graph.add_node(OpKind::kScale, {x}, ScalarAttrs{factor}, "", -1, true).value()[0];
}

float folded_value(const Graph& graph) {
  const Node& node = graph.nodes().back();
  EXPECT_EQ(node.op, OpKind::kFill);
  EXPECT_TRUE(node.inputs.empty());
  return std::get<ScalarAttrs>(node.attrs).value;
}

TEST(ConstantFoldingTest, ScaleOfFillBecomesFill) {
  Graph graph(DType::kBF16);
  graph.add_output("y", scale(graph, scale(graph, fill(graph, 1.0f), -0.1f), 3.0f));
  ConstantFolding().run(graph);
  ASSERT_TRUE(verify(graph).ok());
  EXPECT_EQ(folded_value(graph), -0.1f * 3.0f);
}

TEST(ConstantFoldingTest, MulAndAddOfFillsBecomeFill) {
  Graph graph(DType::kBF16);
  const ValueId three = fill(graph, 3.0f);
  const ValueId half = fill(graph, 0.5f);
  const ValueId product =
      graph.add_node(OpKind::kMul, {three, half}, NoAttrs{}, "", -1, false).value()[0];
  graph.add_output(
      "y",
      graph.add_node(OpKind::kAdd, {product, three, half}, NoAttrs{}, "", -1, false).value()[0]);
  ConstantFolding().run(graph);
  ASSERT_TRUE(verify(graph).ok());
  EXPECT_EQ(folded_value(graph), 5.0f);  // 1.5 + 3 + 0.5
}

TEST(ConstantFoldingTest, DenormalResultsAreFlushedAsKernelsDo) {
  Graph graph(DType::kBF16);
  graph.add_output("y", scale(graph, fill(graph, 0x1p-100f), -0x1p-40f));
  ConstantFolding().run(graph);
  EXPECT_EQ(folded_value(graph), 0.0f);
  EXPECT_TRUE(std::signbit(folded_value(graph)));
}

TEST(ConstantFoldingTest, ScaleOfScaleOfAnInputStaysTwoRoundings) {
  Graph graph(DType::kF32);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {DType::kF32, {{kPicked}}});
  graph.add_output("y", scale(graph, scale(graph, x, 0.1f), 3.0f));
  const std::string before = print(graph);
  ConstantFolding().run(graph);
  EXPECT_EQ(print(graph), before);
}

}  // namespace
}  // namespace mainspring

#include "mainspring/ir/graph.h"

#include <gtest/gtest.h>

#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

// y = silu(x W^T) on (rows, 8) -> (rows, 4).
struct SmallGraph {
  Graph graph{DType::kBF16};
  ValueId x, w, y, s;

  SmallGraph() {
    x = graph.add_source(OpKind::kInput, "x", {DType::kBF16, {{kRows, 8}}});
    w = graph.add_source(OpKind::kParam, "w", {DType::kF32, {{4, 8}}});
    y = graph.add_node(OpKind::kLinear, {x, w}, LinearAttrs{}, "layers.0", 0, false).value()[0];
    s = graph.add_node(OpKind::kSilu, {y}, NoAttrs{}, "layers.0", 0, false).value()[0];
    graph.add_output("s", s);
  }
};

void expect_broken(const Graph& graph, const std::string& part) {
  const Status status = verify(graph);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(GraphTest, TracedGraphVerifies) {
  const SmallGraph g;
  EXPECT_TRUE(verify(g.graph).ok()) << verify(g.graph).to_string();
}

TEST(GraphTest, PrintsOneLinePerNode) {
  const SmallGraph g;
  EXPECT_EQ(print(g.graph),
            "%0: bf16(rows, 8) = input() \"x\"\n"
            "%1: f32(4, 8) = param() \"w\"\n"
            "%2: bf16(rows, 4) = linear(%0, %1) {weights=1} layers.0\n"
            "%3: bf16(rows, 4) = silu(%2) layers.0\n"
            "return s = %3\n");
}

TEST(GraphTest, PrintsAttributesOfEveryKind) {
  Graph graph(DType::kF32);
  const ValueType x_type{DType::kF32, {{kRows, 8}}};
  const ValueId x = graph.add_source(OpKind::kInput, "x", x_type);
  const ValueId w = graph.add_source(OpKind::kParam, "w", {DType::kF32, {{4}}});
  const ValueId t = graph.add_source(OpKind::kParam, "t", {DType::kF32, {{16, 2, 2}}});
  const AttentionAttrs attention{2, 2, 4, 0.5f, 3, 1};
  ASSERT_TRUE(graph.add_node(OpKind::kRmsNorm, {x, w}, NormAttrs{4, 0.5f}, "n", -1, false).ok());
  ASSERT_TRUE(graph.add_node(OpKind::kRope, {x, t}, RopeAttrs{2, 4, true}, "", -1, false).ok());
  ASSERT_TRUE(graph.add_node(OpKind::kAttention, {x, x, x}, attention, "", -1, false).ok());
  ASSERT_TRUE(graph.add_node(OpKind::kScale, {x}, ScalarAttrs{2.0f}, "", -1, false).ok());
  const std::string text = print(graph);
  EXPECT_NE(text.find("%3: f32(rows, 8) = rms_norm(%0, %1) {width=4 eps=0.5} n\n"),
            std::string::npos);
  EXPECT_NE(text.find("= rope(%0, %2) {heads=2 c=4 inverse}\n"), std::string::npos);
  EXPECT_NE(text.find("%5: f32(rows, 8), %6: f32(rows, 2) = attention(%0, %0, %0) "
                      "{h=2 kv=2 c=4 scale=0.5 window=3 layer=1}\n"),
            std::string::npos);
  EXPECT_NE(text.find("= scale(%0) {2}\n"), std::string::npos);
}

TEST(GraphTest, AddNodeNamesOpExpectationAndPath) {
  SmallGraph g;
  const auto result =
      g.graph.add_node(OpKind::kMul, {g.x, g.y}, NoAttrs{}, "layers.0.mlp", 0, false);
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message(),
            "[mul] expected bf16(rows, 8), got bf16(rows, 4) (layers.0.mlp)");
}

TEST(GraphTest, ProducersPointToTheMakingNode) {
  const SmallGraph g;
  EXPECT_EQ(g.graph.producers(), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(VerifyTest, UseBeforeProductionIsBroken) {
  SmallGraph g;
  std::swap(g.graph.mutable_nodes()[2], g.graph.mutable_nodes()[3]);
  expect_broken(g.graph, "node 2 [silu] layers.0: %2 is used before it is made");
}

TEST(VerifyTest, ValueMadeTwiceIsBroken) {
  SmallGraph g;
  g.graph.mutable_nodes().push_back(g.graph.nodes()[3]);
  expect_broken(g.graph, "%3 is made twice");
}

TEST(VerifyTest, StateReadAfterItWasReplacedIsBroken) {
  SmallGraph g;
  const ValueId acc = g.graph.add_source(OpKind::kState, "acc", {DType::kF32, {{4}}});
  const auto update = [&](ValueId state) {
    return g.graph.add_node(OpKind::kBiasGrad, {g.y, state}, NoAttrs{}, "", -1, true).value()[0];
  };
  update(update(acc));  // a chain of updates is fine
  EXPECT_TRUE(verify(g.graph).ok());
  update(acc);
  expect_broken(g.graph, "is used after it was replaced in place");
}

TEST(VerifyTest, TypeAgainstTheShapeRuleIsBroken) {
  SmallGraph g;
  g.graph.mutable_nodes()[3].op = OpKind::kGatherRows;  // would give (picked, 4)
  expect_broken(g.graph, "expected bf16(picked, 4), got bf16(rows, 4)");
}

TEST(VerifyTest, MissingInputIsBroken) {
  SmallGraph g;
  g.graph.mutable_nodes()[3].inputs = {};
  expect_broken(g.graph, "[silu]");
}

TEST(VerifyTest, ValueIdOutOfRangeIsBroken) {
  SmallGraph g;
  g.graph.mutable_nodes()[3].inputs = {99};
  expect_broken(g.graph, "no such input");
}

TEST(VerifyTest, TwoSourcesOfOneNameAreBroken) {
  SmallGraph g;
  g.graph.add_source(OpKind::kInput, "w", {DType::kI32, {{kRows}}});
  expect_broken(g.graph, "a second source named w");
}

TEST(VerifyTest, OutputThatIsNeverMadeIsBroken) {
  SmallGraph g;
  g.graph.mutable_nodes().pop_back();
  expect_broken(g.graph, "graph output s is never made");
}

TEST(VerifyTest, TwoOutputsOfOneNameAreBroken) {
  SmallGraph g;
  g.graph.add_output("s", g.y);
  expect_broken(g.graph, "two graph outputs named s");
}

}  // namespace
}  // namespace mainspring

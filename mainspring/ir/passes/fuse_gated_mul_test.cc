#include "mainspring/ir/passes/fuse_gated_mul.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

constexpr DType kCompute = DType::kBF16;

struct GatedMlp {
  Graph graph{kCompute};
  ValueId gate = graph.add_source(OpKind::kInput, "gate", {kCompute, {{kRows, 4}}});
  ValueId up = graph.add_source(OpKind::kInput, "up", {kCompute, {{kRows, 4}}});
  ValueId dy = graph.add_source(OpKind::kInput, "dy", {kCompute, {{kRows, 4}}});

  ValueId add(OpKind op, std::vector<ValueId> inputs, bool backward = false) {
    return graph.add_node(op, std::move(inputs), NoAttrs{}, "mlp", 0, backward).value()[0];
  }
  std::vector<OpKind> fused_ops() {
    FuseGatedMul().run(graph);
    EXPECT_TRUE(verify(graph).ok()) << verify(graph).to_string();
    std::vector<OpKind> ops;
    for (size_t i = 3; i < graph.nodes().size(); ++i) ops.push_back(graph.nodes()[i].op);
    return ops;
  }
};

TEST(FuseGatedMulTest, ForwardPairBecomesOneNode) {
  GatedMlp g;
  const ValueId y = g.add(OpKind::kMul, {g.add(OpKind::kSilu, {g.gate}), g.up});
  g.graph.add_output("y", y);
  EXPECT_EQ(g.fused_ops(), (std::vector{OpKind::kSiluMul}));
  EXPECT_EQ(g.graph.nodes()[3].inputs, (std::vector{g.gate, g.up}));
  EXPECT_EQ(g.graph.nodes()[3].outputs, (std::vector{y}));
}

TEST(FuseGatedMulTest, OperandsMayBeSwapped) {
  GatedMlp g;
  g.graph.add_output("y", g.add(OpKind::kMul, {g.up, g.add(OpKind::kSilu, {g.gate})}));
  EXPECT_EQ(g.fused_ops(), (std::vector{OpKind::kSiluMul}));
  EXPECT_EQ(g.graph.nodes()[3].inputs, (std::vector{g.gate, g.up}));
}

TEST(FuseGatedMulTest, SiluThatOthersReadStays) {
  GatedMlp g;
  const ValueId silu = g.add(OpKind::kSilu, {g.gate});
  g.graph.add_output("y", g.add(OpKind::kMul, {silu, g.up}));
  g.graph.add_output("silu", silu);
  EXPECT_EQ(g.fused_ops(), (std::vector{OpKind::kSilu, OpKind::kMul}));
}

TEST(FuseGatedMulTest, GradientsBecomeOneNodeAndFreeTheForwardPair) {
  GatedMlp g;
  const ValueId silu = g.add(OpKind::kSilu, {g.gate});
  const ValueId y = g.add(OpKind::kMul, {silu, g.up});
  const ValueId ds = g.add(OpKind::kMul, {g.dy, g.up}, true);
  const ValueId dup = g.add(OpKind::kMul, {g.dy, silu}, true);
  const ValueId dgate = g.add(OpKind::kSiluGrad, {g.gate, ds}, true);
  g.graph.add_output("y", y);
  g.graph.add_output("dgate", dgate);
  g.graph.add_output("dup", dup);
  EXPECT_EQ(g.fused_ops(), (std::vector{OpKind::kSiluMul, OpKind::kSiluMulGrad}));
  const Node& grad = g.graph.nodes()[4];
  EXPECT_EQ(grad.inputs, (std::vector{g.gate, g.up, g.dy}));
  EXPECT_EQ(grad.outputs, (std::vector{dgate, dup}));
  EXPECT_TRUE(grad.backward);
}

TEST(FuseGatedMulTest, LoneGateGradientStays) {
  GatedMlp g;
  const ValueId ds = g.add(OpKind::kMul, {g.dy, g.up}, true);
  g.graph.add_output("dgate", g.add(OpKind::kSiluGrad, {g.gate, ds}, true));
  EXPECT_EQ(g.fused_ops(), (std::vector{OpKind::kMul, OpKind::kSiluGrad}));
}

TEST(FuseGatedMulTest, GradientsOfDifferentGatesStay) {
  GatedMlp g;
  const ValueId silu = g.add(OpKind::kSilu, {g.up});  // not of gate
  const ValueId ds = g.add(OpKind::kMul, {g.dy, g.up}, true);
  g.graph.add_output("dup", g.add(OpKind::kMul, {g.dy, silu}, true));
  g.graph.add_output("silu", silu);
  g.graph.add_output("dgate", g.add(OpKind::kSiluGrad, {g.gate, ds}, true));
  EXPECT_EQ(g.fused_ops().size(), 4u);
}

}  // namespace
}  // namespace mainspring

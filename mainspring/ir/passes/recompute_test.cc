#include "mainspring/ir/passes/recompute.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace mainspring {
namespace {

constexpr DType kCompute = DType::kBF16;

// Two regions, each  n = rms_norm(x); h = linear(n); s = silu(h); y = add(x, s), and the gradients
// that read n, h and x.
struct TwoLayers {
  Graph graph{kCompute};
  ValueId norm = source("norm", OpKind::kParam, {DType::kF32, {{4}}});
  ValueId weight = source("weight", OpKind::kParam, {DType::kF32, {{4, 4}}});
  ValueId x[3], n[2], h[2], s[2];

  explicit TwoLayers(RecomputePolicy policy) {
    x[0] = source("x", OpKind::kInput, {kCompute, {{kRows, 4}}});
    for (int32_t l = 0; l < 2; ++l) forward(l);
    ValueId dy = source("dy", OpKind::kInput, {kCompute, {{kRows, 4}}});
    for (int32_t l = 2; l-- > 0;) dy = backward(l, dy);
    graph.add_output("y", x[2]);
    graph.add_output("dx", dy);
    Recompute(policy).run(graph);
    EXPECT_TRUE(verify(graph).ok()) << verify(graph).to_string();
  }

  ValueId source(const char* name, OpKind op, ValueType type) {
    return graph.add_source(op, name, std::move(type));
  }
  ValueId add(OpKind op, std::vector<ValueId> inputs, Attrs attrs, int32_t region, bool backward) {
    return graph.add_node(op, std::move(inputs), std::move(attrs), "", region, backward).value()[0];
  }

  void forward(int32_t l) {
    n[l] = add(OpKind::kRmsNorm, {x[l], norm}, NormAttrs{4, 1e-5f}, l, false);
    h[l] = add(OpKind::kLinear, {n[l], weight}, LinearAttrs{}, l, false);
    s[l] = add(OpKind::kSilu, {h[l]}, NoAttrs{}, l, false);
    x[l + 1] = add(OpKind::kAdd, {x[l], s[l]}, NoAttrs{}, l, false);
  }

  ValueId backward(int32_t l, ValueId dy) {
    const ValueId acc =
        graph.add_source(OpKind::kState, "acc" + std::to_string(l), {DType::kF32, {{4, 4}}});
    const ValueId dh = add(OpKind::kSiluGrad, {h[l], dy}, NoAttrs{}, -1, true);
    add(OpKind::kLinearWeightGrad, {dh, n[l], acc}, WeightGradAttrs{}, -1, true);
    const ValueId dn = add(OpKind::kLinearInputGrad, {dh, weight}, LinearAttrs{}, -1, true);
    const ValueId dx = add(OpKind::kRmsNormGrad, {x[l], norm, dn}, NormAttrs{4, 1e-5f}, -1, true);
    return add(OpKind::kAdd, {dy, dx}, NoAttrs{}, -1, true);
  }

  int count(OpKind op, bool backward) const {
    return static_cast<int>(std::count_if(
        graph.nodes().begin(), graph.nodes().end(),
        [&](const Node& node) { return node.op == op && node.backward == backward; }));
  }
  const Node& first(OpKind op) const {
    return *std::find_if(graph.nodes().begin(), graph.nodes().end(),
                         [&](const Node& node) { return node.op == op; });
  }
};

TEST(RecomputeTest, NoneLeavesTheGraphAlone) {
  const TwoLayers g(RecomputePolicy::kNone);
  EXPECT_EQ(g.count(OpKind::kRmsNorm, true), 0);
  EXPECT_EQ(g.first(OpKind::kSiluGrad).inputs[0], g.h[1]);
}

TEST(RecomputeTest, SelectiveRebuildsCheapValuesOnly) {
  const TwoLayers g(RecomputePolicy::kSelective);
  EXPECT_EQ(g.count(OpKind::kRmsNorm, true), 2);  // n, from x which rms_norm_grad keeps anyway
  EXPECT_EQ(g.count(OpKind::kLinear, true), 0);
  EXPECT_EQ(g.first(OpKind::kSiluGrad).inputs[0], g.h[1]);
  EXPECT_NE(g.first(OpKind::kLinearWeightGrad).inputs[1], g.n[1]);
}

TEST(RecomputeTest, SelectiveKeepsCheapValuesWhoseInputsWouldHaveToBeKeptInstead) {
  Graph graph(kCompute);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {kCompute, {{kRows, 4}}});
  const ValueId w = graph.add_source(OpKind::kParam, "w", {DType::kF32, {{4, 4}}});
  const auto node = [&](OpKind op, std::vector<ValueId> inputs, Attrs attrs, bool backward) {
    return graph.add_node(op, std::move(inputs), std::move(attrs), "", 0, backward).value()[0];
  };
  const ValueId h = node(OpKind::kLinear, {x, w}, LinearAttrs{}, false);
  const ValueId s = node(OpKind::kSilu, {h}, NoAttrs{}, false);
  graph.add_output("y", node(OpKind::kMul, {s, x}, NoAttrs{}, false));
  graph.add_output("dx", node(OpKind::kMul, {s, x}, NoAttrs{}, true));  // reads s, not h
  const std::string before = print(graph);
  Recompute(RecomputePolicy::kSelective).run(graph);
  EXPECT_EQ(print(graph), before);
}

TEST(RecomputeTest, FullKeepsOnlyWhatCrossesRegions) {
  const TwoLayers g(RecomputePolicy::kFull);
  EXPECT_EQ(g.count(OpKind::kRmsNorm, true), 2);
  EXPECT_EQ(g.count(OpKind::kLinear, true), 2);
  EXPECT_EQ(g.count(OpKind::kSilu, true), 0);  // nobody reads s backward
  EXPECT_EQ(g.first(OpKind::kRmsNormGrad).inputs[0], g.x[1]);
}

TEST(RecomputeTest, ClonesStandJustBeforeTheirFirstReaderAndAreShared) {
  const TwoLayers g(RecomputePolicy::kFull);
  const auto& nodes = g.graph.nodes();
  const auto grad = std::find_if(nodes.begin(), nodes.end(),
                                 [](const Node& n) { return n.op == OpKind::kSiluGrad; });
  const Node& linear = *(grad - 1);
  const Node& norm = *(grad - 2);
  EXPECT_EQ(linear.op, OpKind::kLinear);
  EXPECT_TRUE(linear.backward);
  EXPECT_TRUE(linear.recomputed);
  EXPECT_FALSE(grad->recomputed);
  EXPECT_EQ(norm.op, OpKind::kRmsNorm);
  EXPECT_EQ(linear.inputs[0], norm.outputs[0]);
  EXPECT_EQ(grad->inputs[0], linear.outputs[0]);
  EXPECT_EQ((grad + 1)->inputs[1], norm.outputs[0]);  // the weight gradient reads the same clone
}

TEST(RecomputeTest, ClonesRepeatAttributesSoDropoutKeysRepeat) {
  Graph graph(kCompute);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {kCompute, {{kRows, 4}}});
  const ValueId w = graph.add_source(OpKind::kParam, "w", {DType::kF32, {{4, 4}}});
  const ValueId a = graph.add_source(OpKind::kParam, "a", {DType::kF32, {{2, 4}}});
  const ValueId b = graph.add_source(OpKind::kParam, "b", {DType::kF32, {{4, 2}}});
  LinearAttrs attrs;
  attrs.adapters = {
      {.output = 0, .slot = 0, .rank = 2, .scale = 2, .dropout = 0.1f, .dropout_key = 7}};
  const auto y = graph.add_node(OpKind::kLinear, {x, w, a, b}, attrs, "", 0, false).value();
  graph.add_output("y", graph.add_node(OpKind::kSilu, {y[0]}, NoAttrs{}, "", 0, false).value()[0]);
  graph.add_output(
      "dx", graph.add_node(OpKind::kSiluGrad, {y[0], x}, NoAttrs{}, "", -1, true).value()[0]);
  Recompute(RecomputePolicy::kFull).run(graph);
  ASSERT_TRUE(verify(graph).ok());
  int linears = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != OpKind::kLinear) continue;
    ++linears;
    EXPECT_EQ(std::get<LinearAttrs>(node.attrs), attrs);
  }
  EXPECT_EQ(linears, 2);
}

}  // namespace
}  // namespace mainspring

#include "mainspring/ir/op_table.h"

#include <set>

#include <gtest/gtest.h>

namespace mainspring {
namespace {

constexpr DType kCompute = DType::kBF16;

ValueType rows_of(int64_t width) { return {kCompute, {{kRows, width}}}; }
ValueType matrix(int64_t out, int64_t in) { return {DType::kF32, {{out, in}}}; }

TEST(OpTableTest, RowsAreInTheOrderOfTheEnum) {
  const auto table = op_table();
  ASSERT_EQ(table.size(), static_cast<size_t>(OpKind::kNumOps));
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i].kind, static_cast<OpKind>(i)) << table[i].name;
    EXPECT_EQ(&op_info(table[i].kind), &table[i]);
  }
}

TEST(OpTableTest, EveryRowIsComplete) {
  std::set<std::string_view> names;
  for (const OpInfo& info : op_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_NE(info.infer, nullptr) << info.name;
    EXPECT_NE(info.flops, nullptr) << info.name;
    EXPECT_EQ(info.writes_state, info.aliased_input >= 0) << info.name;
  }
}

TEST(OpTableTest, WrongShapesSayWhatWasExpected) {
  const auto result =
      op_info(OpKind::kLinear).infer(kCompute, LinearAttrs{}, {rows_of(8), matrix(4, 9)});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message(), "expected a weight (out, 8), got f32(4, 9)");
}

TEST(OpTableTest, WrongInputCountsAreRefusedByEveryOpWithFixedArity) {
  const Attrs by_op[] = {NoAttrs{}, LinearAttrs{}, NormAttrs{4, 1e-5f}, RopeAttrs{1, 4, false},
                         AttentionAttrs{1, 1, 4, 1.0f, 0, 0}};
  const std::pair<OpKind, size_t> cases[] = {{OpKind::kEmbedding, 0}, {OpKind::kLinear, 1},
                                             {OpKind::kRmsNorm, 2},   {OpKind::kRope, 3},
                                             {OpKind::kAttention, 4}, {OpKind::kAttentionGrad, 4}};
  for (const auto& [op, attrs] : cases) {
    EXPECT_FALSE(op_info(op).infer(kCompute, by_op[attrs], {rows_of(4)}).ok()) << op_info(op).name;
  }
}

TEST(OpTableTest, GradientsRefuseAccumulatorsOfAnotherShape) {
  const ValueType dy = rows_of(4), x = rows_of(8), tokens{DType::kI32, {{kRows}}};
  const ValueType wrong = matrix(4, 9);
  const auto refuses = [](OpKind op, const Attrs& attrs, const TypeRefs& inputs) {
    return !op_info(op).infer(kCompute, attrs, inputs).ok();
  };
  EXPECT_TRUE(refuses(OpKind::kLinearWeightGrad, WeightGradAttrs{}, {dy, x, wrong}));
  EXPECT_TRUE(refuses(OpKind::kBiasGrad, NoAttrs{}, {dy, wrong}));
  EXPECT_TRUE(refuses(OpKind::kEmbeddingGrad, NoAttrs{}, {tokens, dy, wrong}));
  EXPECT_TRUE(
      refuses(OpKind::kRmsNormGrad, NormAttrs{4, 0}, {dy, {DType::kF32, {{4}}}, dy, wrong}));
}

TEST(OpTableTest, ASumCostsWhatItReads) {
  const ValueType gradient{DType::kF32, {{100, 20}}};
  const auto& info = op_info(OpKind::kSumOfSquares);
  const auto out = info.infer(DType::kF32, NoAttrs{}, {gradient}).value();
  EXPECT_EQ(info.flops(NoAttrs{}, {gradient}, out, {}), 4000.0);
}

TEST(OpTableTest, ScaleIsForActivationsAndValuesInF32) {
  const auto infer = op_info(OpKind::kScale).infer;
  EXPECT_TRUE(infer(kCompute, ScalarAttrs{2}, {rows_of(4)}).ok());
  EXPECT_TRUE(infer(kCompute, ScalarAttrs{2}, {{DType::kF32, {{kPicked}}}}).ok());
  EXPECT_FALSE(infer(kCompute, ScalarAttrs{2}, {{DType::kI32, {{kPicked}}}}).ok());
}

TEST(OpTableTest, LinearGivesOneResultPerWeightAndOnePerAdapter) {
  LinearAttrs attrs;
  attrs.num_weights = 2;
  attrs.adapters = {{.output = 1, .slot = 0, .rank = 3}};
  const auto result =
      op_info(OpKind::kLinear)
          .infer(kCompute, attrs,
                 {rows_of(8), matrix(4, 8), matrix(6, 8), matrix(3, 8), matrix(6, 3)});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(*result, (TypeRefs{rows_of(4), rows_of(6), rows_of(3)}));
}

TEST(OpTableTest, OnlyTheAccumulatorOfAStateWriterIsAliased) {
  Node grad;
  grad.op = OpKind::kRmsNormGrad;
  grad.inputs = {0, 1, 2, 3};  // x, w, dy, acc
  grad.outputs = {4, 5};       // dx, acc
  EXPECT_EQ(aliased_input(grad, 0), -1);
  EXPECT_EQ(aliased_input(grad, 1), 3);
  EXPECT_TRUE(has_effect(grad));
  grad.inputs.pop_back();  // frozen w
  grad.outputs.pop_back();
  EXPECT_EQ(aliased_input(grad, 0), -1);
  EXPECT_FALSE(has_effect(grad));
}

TEST(OpTableTest, AdamwUpdatesEachOfItsThreeStates) {
  Node adamw;
  adamw.op = OpKind::kAdamw;
  adamw.inputs = {0, 1, 2, 3, 4};
  adamw.outputs = {5, 6, 7};
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(aliased_input(adamw, i), static_cast<int32_t>(i));
}

TEST(OpTableTest, LinearCostsTwoFlopsPerWeightAndRow) {
  Graph graph(kCompute);
  const ValueId x = graph.add_source(OpKind::kInput, "x", rows_of(8));
  const ValueId w = graph.add_source(OpKind::kParam, "w", matrix(4, 8));
  ASSERT_TRUE(graph.add_node(OpKind::kLinear, {x, w}, LinearAttrs{}, "", -1, false).ok());
  const Node& linear = graph.nodes().back();
  EXPECT_EQ(node_flops(graph, linear, {.rows = 3, .picked = 0}), 2.0 * 3 * 4 * 8);
  // x 3*8 bf16, w 4*8 f32, y 3*4 bf16
  EXPECT_EQ(node_bytes(graph, linear, {.rows = 3, .picked = 0}), 48.0 + 128.0 + 24.0);
}

}  // namespace
}  // namespace mainspring

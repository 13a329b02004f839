#include "mainspring/exec/late_inputs.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

// y = silu(x), then z = y * late.
struct Late {
  Graph graph{DType::kF32};
  ValueType type{DType::kF32, {{kRows, 2}}};
  ValueId x = graph.add_source(OpKind::kInput, "x", type);
  ValueId late = graph.add_source(OpKind::kInput, "late", type);
  ValueId y = graph.add_node(OpKind::kSilu, {x}, NoAttrs{}, "", -1, false).value()[0];
  ValueId z = graph.add_node(OpKind::kMul, {y, late}, NoAttrs{}, "", -1, false).value()[0];
};

TEST(LateInputs, TheFirstReaderIsFound) {
  Late g;
  g.graph.add_output("y", g.y);
  EXPECT_EQ(steps_before_late_inputs(g.graph, {"late"}).value(), 1u);
  EXPECT_EQ(steps_before_late_inputs(g.graph, {"x"}).status().message(),
            "output y is made after a late input is read");
}

TEST(LateInputs, WithoutAReaderAllStepsComeBefore) {
  Late g;
  g.graph.add_source(OpKind::kInput, "unread", g.type);
  g.graph.add_output("z", g.z);
  EXPECT_EQ(steps_before_late_inputs(g.graph, {"unread"}).value(), 2u);
  EXPECT_EQ(steps_before_late_inputs(g.graph, {}).value(), 2u);
}

TEST(LateInputs, AnOutputMadeLaterAndAnUnknownNameAreRefused) {
  Late g;
  g.graph.add_output("z", g.z);
  EXPECT_EQ(steps_before_late_inputs(g.graph, {"late"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(steps_before_late_inputs(g.graph, {"latest"}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace mainspring

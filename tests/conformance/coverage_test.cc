// Names every op that lacks a step: a case, an implementation in each executor, an autodiff rule.
#include <gtest/gtest.h>

#include <set>

#include "mainspring/autodiff/grad.h"
#include "mainspring/exec/ref/op.h"
#include "mainspring/ir/op_table.h"
#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

const OpCase* first_case(OpKind op) {
  for (const OpCase& c : op_cases()) {
    if (c.op == op) return &c;
  }
  return nullptr;
}

TEST(CoverageTest, EveryOpHasACase) {
  for (const OpInfo& op : op_table()) {
    EXPECT_NE(first_case(op.kind), nullptr)
        << op.name << " lacks a case in tests/conformance/cases_*.cc";
  }
}

TEST(CoverageTest, ACaseContainsItsOp) {
  for (const OpCase& c : op_cases()) {
    CaseBuilder builder(DType::kF32, small_rows(), Mode::kForward);
    c.build(builder);
    bool found = false;
    for (const Node& node : builder.tracer().graph().nodes()) found = found || node.op == c.op;
    EXPECT_TRUE(found) << c.name << " has no node of " << op_info(c.op).name;
  }
}

TEST(CoverageTest, CaseNamesAreUnique) {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

TEST(CoverageTest, EveryOpHasAReferenceImplementation) {
  for (const OpInfo& op : op_table()) {
    if (op.is_source) continue;
    EXPECT_NE(ref::find_op(op.kind), nullptr)
        << op.name << " lacks a function in mainspring/exec/ref";
  }
}

TEST(CoverageTest, EveryExecutorCompilesEveryOp) {
  for (const auto& executor : make_executors()) {
    for (const OpInfo& op : op_table()) {
      const OpCase* op_case = first_case(op.kind);
      if (op_case == nullptr) continue;  // named above
      for (DType compute : {DType::kF32, DType::kBF16}) {
        CaseBuilder builder(compute, small_rows(), Mode::kForward);
        op_case->build(builder);
        CompileOptions options;
        options.capacity = {64, 64};
        const Status status = executor->compile(builder.finish(false).graph, options).status();
        EXPECT_TRUE(status.ok()) << op.name << " lacks an implementation in " << executor->name()
                                 << ": " << status.to_string();
      }
    }
  }
}

TEST(CoverageTest, EveryDifferentiableOpHasARuleAndAGradientCase) {
  for (const OpInfo& op : op_table()) {
    EXPECT_EQ(has_grad_rule(op.kind), op.is_differentiable)
        << op.name
        << (op.is_differentiable ? " lacks a rule in mainspring/autodiff/rules.cc"
                                 : " has a rule, but the op table says not differentiable");
    if (!op.is_differentiable) continue;
    bool has_case = false;
    for (const OpCase& c : op_cases()) has_case = has_case || (c.op == op.kind && c.has_gradient);
    EXPECT_TRUE(has_case) << op.name << " lacks a case with has_gradient";
  }
}

}  // namespace
}  // namespace mainspring::conformance

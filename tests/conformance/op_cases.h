// The table of op cases: one list that drives forward, gradient, bit-equality and coverage tests.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "mainspring/ir/op_table.h"
#include "tests/conformance/case_builder.h"
#include "tests/conformance/run_case.h"

namespace mainspring::conformance {

struct OpCase {
  OpKind op;
  std::string name;  // unique: "linear_k7_out33"
  std::function<void(CaseBuilder&)> build;
  Tolerance tolerance = {};
  /// Also differentiated (on small_rows()) and compared with central differences.
  bool has_gradient = false;
  /// Row layouts of the forward test; empty: standard_rows().
  std::vector<Rows> rows = {};
};

/// A failing test shows the name.
inline void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

/// Every case of every op, in the order of the op table.
const std::vector<OpCase>& op_cases();

// By group, in cases_*.cc.
std::vector<OpCase> linear_cases();
std::vector<OpCase> row_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> head_cases();
std::vector<OpCase> optimizer_cases();

}  // namespace mainspring::conformance

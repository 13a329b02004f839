// Runs one op of the reference on literal values, for the unit tests of exec/ref.
#pragma once

#include <cmath>

#include <gtest/gtest.h>

#include "mainspring/exec/ref/ref_executor.h"

namespace mainspring::ref {

/// One input of the op under test: a source of this type with these values.
struct Arg {
  ValueType type;
  std::vector<double> values;
  OpKind source = OpKind::kInput;  // kState for what the op updates
};

inline Arg f32(std::vector<int64_t> dims, std::vector<double> values) {
  return {{DType::kF32, {std::move(dims)}}, std::move(values)};
}
inline Arg i32(std::vector<int64_t> dims, std::vector<double> values) {
  return {{DType::kI32, {std::move(dims)}}, std::move(values)};
}
inline Arg state(std::vector<int64_t> dims, std::vector<double> values) {
  return {{DType::kF32, {std::move(dims)}}, std::move(values), OpKind::kState};
}

struct OpRun {
  std::vector<Segment> segments = {};
  std::vector<int32_t> picked = {};
  int32_t rows = 0;
  const KvView* kv = nullptr;
  RefOptions options = {};
  DType compute = DType::kF32;
};

/// One segment of all rows, in no slot.
inline OpRun one_sequence(int32_t rows) { return {.segments = {{.num_rows = rows}}, .rows = rows}; }

/// The outputs' values.
inline std::vector<std::vector<double>> run_op(OpKind op, const Attrs& attrs,
                                               const std::vector<Arg>& args, const OpRun& run) {
  Graph graph(run.compute);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < args.size(); ++i) {
    inputs.push_back(graph.add_source(args[i].source, "in" + std::to_string(i), args[i].type));
  }
  const auto outputs = graph.add_node(op, inputs, attrs, "", -1, false);
  EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
  for (size_t i = 0; i < outputs->size(); ++i)
    graph.add_output("out" + std::to_string(i), (*outputs)[i]);
  const RowTable table{run.rows, run.segments, run.picked};
  const auto picks = static_cast<int64_t>(run.picked.size());
  auto executable = RefExecutor(run.options).compile_ref(graph, {.capacity = {run.rows, picks}});
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  for (size_t i = 0; i < args.size(); ++i) {
    EXPECT_TRUE((*executable)->bind_values("in" + std::to_string(i), args[i].values).ok());
  }
  (*executable)->run({.table = &table, .pick_table = nullptr, .kv = run.kv});
  std::vector<std::vector<double>> results;
  for (size_t i = 0; i < outputs->size(); ++i) {
    const auto values = (*executable)->values("out" + std::to_string(i));
    results.emplace_back(values.begin(), values.end());
  }
  return results;
}

/// Equal up to a few f64 roundings of numbers of this size.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 16 * 0x1p-52 * (std::abs(want[i]) + 1)) << "element " << i;
  }
}

}  // namespace mainspring::ref

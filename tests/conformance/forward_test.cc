// Each case on each executor against the oracle, in f32 and bf16, and bit by bit between the CPU's
// paths.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

std::vector<std::unique_ptr<Executor>>& executors() {
  static std::vector<std::unique_ptr<Executor>> all = make_executors();
  return all;
}

class ForwardTest : public testing::TestWithParam<OpCase> {};

void compare_with_oracle(const OpCase& op_case, const Rows& rows, DType compute) {
  CaseBuilder builder(compute, rows, Mode::kForward);
  op_case.build(builder);
  const BuiltCase built = builder.finish(false);
  const CaseResults oracle = run_oracle(built);
  const CaseResults* first_cpu = nullptr;
  std::vector<CaseResults> results;
  results.reserve(executors().size());  // first_cpu points into it
  for (const auto& executor : executors()) {
    SCOPED_TRACE(executor->name());
    SCOPED_TRACE(std::to_string(executor->num_threads()) + " threads");
    auto got = run_case(*executor, built);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    results.push_back(std::move(got).value());
    expect_near_oracle(built, results.back(), oracle, op_case.tolerance);
    if (!executor->name().starts_with("cpu/")) continue;
    if (first_cpu == nullptr) first_cpu = &results.back();
    for (const Checked& checked : built.checked) {
      if (checked.slot != kAnySlot) continue;  // rows of other slots are left as they were
      EXPECT_EQ(results.back().bytes.at(checked.name), first_cpu->bytes.at(checked.name))
          << checked.name << ": bits differ from the first CPU executor's";
    }
  }
}

void compare_layouts_remade(const OpCase& op_case, DType compute) {
  CaseBuilder builder(compute, small_rows(), Mode::kForward);
  op_case.build(builder);
  const BuiltCase built = builder.finish(false);
  for (const auto& executor : executors()) {
    SCOPED_TRACE(executor->name());
    const auto kept = run_case(*executor, built);
    for (Repack repack : {Repack::kQuantised, Repack::kAll}) {
      const auto remade = run_case(*executor, built, {.repack = repack});
      ASSERT_TRUE(kept.ok() && remade.ok());
      for (const Checked& checked : built.checked) {
        if (checked.slot != kAnySlot) continue;  // rows of other slots are left as they were
        EXPECT_TRUE(kept->bytes.at(checked.name) == remade->bytes.at(checked.name)) << checked.name;
      }
    }
  }
}

TEST_P(ForwardTest, LayoutsMadeAtEveryUseGiveTheSameBits) {
  for (DType compute : {DType::kF32, DType::kBF16}) compare_layouts_remade(GetParam(), compute);
}

TEST_P(ForwardTest, EveryExecutorAgreesWithTheOracleAndEveryCpuPathInBits) {
  const OpCase& op_case = GetParam();
  for (const Rows& rows : op_case.rows.empty() ? standard_rows() : op_case.rows) {
    for (DType compute : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(rows.name + " in " + std::string(dtype_name(compute)));
      compare_with_oracle(op_case, rows, compute);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ForwardTest, testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mainspring::conformance

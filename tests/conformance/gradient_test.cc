// The autodiff rule of each op against central differences of the oracle, and on each executor.
//
// A case is built in gradient mode, its parameters moved along random directions d in f64, and
// (L(w + h d) - L(w - h d)) / 2h compared with gradient . d. With h = 2^-16 the cut-off error is
// about h^2 = 2^-32 of the third derivative and rounding about 2^-52 / h = 2^-36 of the loss.
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/exec/ref/ref_executor.h"
#include "mainspring/exec/ref/storage.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/random_values.h"

namespace mainspring::conformance {
namespace {

constexpr double kStep = 0x1p-16;
constexpr int kDirections = 4;

BuiltCase build(const OpCase& op_case, bool with_gradients) {
  CaseBuilder builder(DType::kF32, small_rows(), Mode::kGradient);
  op_case.build(builder);
  return builder.finish(with_gradients);
}

RowCounts counts_of(const Rows& rows) {
  return {rows.num_rows, static_cast<int64_t>(rows.picked.size())};
}

// The oracle on f64 sources that can be moved.
class Oracle {
 public:
  explicit Oracle(const BuiltCase& built) : rows_(built.rows) {
    executable_ = executor_.compile_ref(built.graph, {.capacity = counts_of(rows_)}).value();
    for (const SourceData& source : built.sources) {
      const int64_t elements = source.type.shape.num_elements(counts_of(rows_));
      sources_[source.name] =
          ref::decode(source.type.dtype, source.bytes.data(), nullptr, elements);
    }
  }

  std::vector<double>& source(const std::string& name) { return sources_.at(name); }

  // Runs and returns the named result.
  std::vector<double> run(const std::string& name) {
    for (const auto& [source, values] : sources_) {
      EXPECT_TRUE(executable_->bind_values(source, values).ok()) << source;
    }
    const RowTable table = rows_.table();
    const RowTable pick_table = rows_.pick_table();
    executable_->run({.table = &table, .pick_table = &pick_table});
    return result(name);
  }
  std::vector<double> result(const std::string& name) const {
    const auto values = executable_->values(name);
    return {values.begin(), values.end()};
  }

 private:
  Rows rows_;
  ref::RefExecutor executor_;
  std::unique_ptr<ref::RefExecutable> executable_;
  std::map<std::string, std::vector<double>> sources_;
};

// The slope of the loss along `direction` of a parameter.
double slope(Oracle& oracle, const std::string& param, const std::vector<double>& direction) {
  const std::vector<double> start = oracle.source(param);
  const auto loss_at = [&](double h) {
    for (size_t i = 0; i < start.size(); ++i) oracle.source(param)[i] = start[i] + h * direction[i];
    return oracle.run("loss")[0];
  };
  const double result = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  oracle.source(param) = start;
  return result;
}

class GradientTest : public testing::TestWithParam<OpCase> {};

TEST_P(GradientTest, RuleAgreesWithCentralDifferences) {
  const BuiltCase with_gradients = build(GetParam(), true);
  Oracle gradient_oracle(with_gradients);
  gradient_oracle.run("loss");
  Oracle loss_oracle(build(GetParam(), false));
  ASSERT_FALSE(with_gradients.accumulators.empty());
  std::map<std::string, std::vector<double>> gradients;  // by parameter, its uses added
  for (size_t i = 0; i < with_gradients.accumulators.size(); ++i) {
    const std::vector<double> use = gradient_oracle.result(with_gradients.accumulators[i]);
    auto& total = gradients[with_gradients.params[i]];
    total.resize(use.size());
    for (size_t e = 0; e < use.size(); ++e) total[e] += use[e];
  }
  for (const auto& [param, gradient] : gradients) {
    for (int d = 0; d < kDirections; ++d) {
      RandomValues random(param + "/" + std::to_string(d));
      std::vector<double> direction(gradient.size());
      double along = 0, magnitude = 0;
      for (size_t i = 0; i < direction.size(); ++i) {
        direction[i] = random.uniform(-1, 1);
        along += gradient[i] * direction[i];
        magnitude += std::abs(gradient[i] * direction[i]);
      }
      EXPECT_NEAR(slope(loss_oracle, param, direction), along, 0x1p-24 * (magnitude + 1)) << param;
    }
  }
}

TEST_P(GradientTest, EveryParameterGetsAGradientThatIsNotAllZero) {
  const BuiltCase with_gradients = build(GetParam(), true);
  const BuiltCase without = build(GetParam(), false);
  for (const std::string& param : without.params) {
    EXPECT_NE(std::find(with_gradients.params.begin(), with_gradients.params.end(), param),
              with_gradients.params.end())
        << param;
  }
  Oracle oracle(with_gradients);
  oracle.run("loss");
  for (const std::string& accumulator : with_gradients.accumulators) {
    double sum = 0;
    for (double g : oracle.result(accumulator)) sum += std::abs(g);
    EXPECT_GT(sum, 0) << accumulator;
  }
}

TEST_P(GradientTest, EveryExecutorGivesTheOraclesGradients) {
  const BuiltCase built = build(GetParam(), true);
  const CaseResults oracle = run_oracle(built);
  for (const auto& executor : make_executors()) {
    SCOPED_TRACE(executor->name());
    const auto got = run_case(*executor, built);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    // A chain of ops: errors of each are magnified by the next ones.
    expect_near_oracle(built, *got, oracle, {.sums = 1024, .inner = 0});
  }
}

std::vector<OpCase> gradient_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : op_cases()) {
    if (c.has_gradient) cases.push_back(c);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, testing::ValuesIn(gradient_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mainspring::conformance

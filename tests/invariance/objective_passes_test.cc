// A group's objective in one pass, and in two where a micro-batch or a gradient leaf cuts the
// group: the same bits.
#include <gtest/gtest.h>

#include "mainspring/train/exactness_checks.h"
#include "tests/invariance/call_bench.h"

namespace mainspring {
namespace {

// 0.5 (S - mean S)^2 per datum, S the weighted sum of its log-probabilities.
Status spread(std::span<const ObjectiveItem> items, const LossSettings&,
              std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  if (items.size() == 3 && items[0].datum->group == 13)
    return invalid_argument("three are too few");
  std::vector<double> sums(items.size(), 0.0);
  double mean = 0.0;
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t t = 0; t < items[i].logprobs.size(); ++t) {
      sums[i] += static_cast<double>(items[i].datum->weights[t] * items[i].logprobs[t]);
    }
    mean += sums[i] / static_cast<double>(items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const double off = sums[i] - mean;
    gradients[i].loss = 0.5 * off * off;
    for (size_t t = 0; t < items[i].logprobs.size(); ++t) {
      gradients[i].by_logprob[t] = off * static_cast<double>(items[i].datum->weights[t]);
    }
  }
  metrics["mean"].add(mean);
  return {};
}

constexpr std::string_view kInputs[] = {"weights"};
constexpr LossInfo kSpread{
    .name = "spread", .inputs = kInputs, .objective = spread, .scope = LossScope::kGroup};

struct Outcome {
  test::Gradients gradients;
  ForwardBackwardResult result;
};

class ObjectivePassesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 8; ++i) {
      datums_.push_back(make_random_datum(model_->config.vocabulary, 6 + 3 * (i % 3), 70 + i));
      datums_.back().sample_index = static_cast<uint64_t>(i);
      datums_.back().group = i < 4 ? 5 : 6 + i % 2;  // 5 5 5 5 6 7 6 7
    }
  }

  Result<Outcome> run(const test::CallCut& cut, bool with_gradient = true) const {
    test::CallBench bench(model_, cut);
    MS_ASSIGN_OR_RETURN(
        auto made, make_adapter_trainable(bench.executor(), model_->config,
                                          make_random_adapter(model_->config, 11, 4, 0.1f), 5));
    Trainable& adapter = bench.add(std::move(made));
    MS_ASSIGN_OR_RETURN(auto results, bench.call({{&adapter, datums_}}, kSpread, with_gradient));
    return Outcome{test::CallBench::gradients(adapter), std::move(results[0])};
  }

  static void expect_same(const Outcome& got, const Outcome& expected, const std::string& what) {
    EXPECT_TRUE(test::same_bits(got.gradients, expected.gradients)) << what;
    EXPECT_EQ(got.result.logprobs, expected.result.logprobs) << what;
    EXPECT_EQ(got.result.loss_sum, expected.result.loss_sum) << what;
    EXPECT_EQ(got.result.metrics.at("mean").sum, expected.result.metrics.at("mean").sum) << what;
  }

  std::shared_ptr<const LoadedModel> model_ =
      load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
  std::vector<Datum> datums_;
};

TEST_F(ObjectivePassesTest, OnePassAndTwoPassesGiveTheSameBits) {
  const Outcome whole = run({}).value();
  EXPECT_EQ(whole.result.num_micro_batches, 1);
  EXPECT_EQ(whole.result.metrics.at("mean").count, 3);
  EXPECT_GT(whole.result.loss_sum, 0.0);
  // 48 rows hold each unit, 16 hold none: then every group takes two passes.
  const Outcome units = run({.micro_batch_rows = 48}).value();
  EXPECT_EQ(units.result.num_micro_batches, 2);
  expect_same(units, whole, "48 rows");
  const Outcome cut = run({.micro_batch_rows = 16}).value();
  EXPECT_GT(cut.result.num_micro_batches, 8);
  expect_same(cut, whole, "16 rows");
}

TEST_F(ObjectivePassesTest, RecomputationChangesNoBit) {
  const Outcome kept = run({}).value();
  for (const RecomputePolicy policy :
       {RecomputePolicy::kSelective, RecomputePolicy::kKeepAttention, RecomputePolicy::kFull}) {
    expect_same(run({.recompute = policy}).value(), kept, "one pass");
    expect_same(run({.micro_batch_rows = 16, .recompute = policy}).value(), kept, "two passes");
  }
}

TEST_F(ObjectivePassesTest, AGroupMaySpanGradientLeaves) {
  const Outcome one = run({.leaf = 3}).value();
  EXPECT_GT(one.result.num_micro_batches, 3);
  expect_same(run({.micro_batch_rows = 16, .leaf = 3}).value(), one, "leaves of 3");
}

TEST_F(ObjectivePassesTest, WithoutGradientsTheLossIsTheSame) {
  const Outcome trained = run({}).value();
  for (const int64_t rows : {1024, 16}) {
    const Outcome scored = run({.micro_batch_rows = rows}, false).value();
    EXPECT_EQ(scored.result.loss_sum, trained.result.loss_sum);
    EXPECT_EQ(scored.result.metrics.at("mean").sum, trained.result.metrics.at("mean").sum);
  }
}

TEST_F(ObjectivePassesTest, AGroupThatTheObjectiveRefusesIsNamedBeforeWork) {
  for (int i = 0; i < 3; ++i) datums_[static_cast<size_t>(i)].group = 13;
  EXPECT_EQ(run({}).status().message(), "group 13: three are too few");
}

}  // namespace
}  // namespace mainspring

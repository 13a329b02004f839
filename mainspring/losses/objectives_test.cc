// What objectives refuse, and the figures they report. Values and gradients: tests/golden.
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/losses/logistic.h"
#include "mainspring/losses/losses.h"
#include "mainspring/losses/preference_losses.h"

namespace mainspring {
namespace {

struct Fixture {
  std::vector<Datum> datums;
  std::vector<std::vector<float>> logprobs;
  LossMetrics metrics;
  double total = 0.0;

  void add(int32_t role, std::vector<float> lp, std::map<std::string, std::vector<float>> inputs) {
    datums.push_back({.weights = std::vector<float>(lp.size(), 1.0f),
                      .inputs = std::move(inputs),
                      .group = 2,
                      .role = role});
    logprobs.push_back(std::move(lp));
  }

  Status run(const char* name, const LossSettings& given = {}) {
    const LossInfo& loss = *find_loss(name).value();
    MS_ASSIGN_OR_RETURN(const LossSettings settings, complete_settings(loss, given));
    std::vector<ObjectiveItem> items;
    std::vector<ObjectiveGradient> gradients;
    for (size_t i = 0; i < datums.size(); ++i) {
      items.push_back({&datums[i], logprobs[i], {}});
      gradients.push_back({.by_logprob = std::vector<double>(logprobs[i].size()), .by_value = {}});
    }
    metrics.clear();
    MS_RETURN_IF_ERROR(loss.objective(items, settings, gradients, metrics));
    total = 0.0;
    for (const ObjectiveGradient& gradient : gradients) total += gradient.loss;
    return {};
  }
};

void expect_refused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(PolicyLoss, ReportsRatiosClipsAndDistances) {
  Fixture f;
  const float two = std::log(2.0f);
  f.add(0, {-1.0f, -1.0f, -1.0f, -1.0f},
        {{"logprobs", {-1.0f, -1.0f - two, -1.0f, -1.0f}}, {"advantages", {1, 1, 1, -1}}});
  ASSERT_TRUE(f.run("ppo").ok());
  EXPECT_NEAR(f.metrics["ratio"].mean(), 1.25, 1e-6);
  EXPECT_NEAR(f.metrics["ratio"].largest, 2.0, 1e-6);
  EXPECT_EQ(f.metrics["clip_fraction"].mean(), 0.25);
  EXPECT_EQ(f.metrics["ratio_hist/0.95_1.05"].mean(), 0.75);
  EXPECT_EQ(f.metrics["entropy"].mean(), 1.0);
  EXPECT_NEAR(f.metrics["approx_kl"].mean(), (1.0 - std::log(2.0)) / 4.0, 1e-6);
  EXPECT_NEAR(f.total, -1.0 - 1.2 - 1.0 + 1.0, 1e-6);
  EXPECT_EQ(f.metrics.count("correction"), 0u);
  ASSERT_TRUE(f.run("ppo", {{"correction", 3}, {"correction_cap", 1.5}}).ok());
  EXPECT_EQ(f.metrics["correction_cut"].mean(), 0.25);  // rho of the second token is 2
}

TEST(PolicyLoss, RefusesWhatItCannotKeep) {
  Fixture f;
  f.add(0, {-1.0f}, {{"logprobs", {-1.0f}}, {"advantages", {1}}});
  expect_refused(f.run("ppo", {{"kl_coef", 0.1}}), "\"ref_logprobs\"");
  expect_refused(f.run("ppo", {{"correction", 1.5}}), "correction: expected a whole number");
  expect_refused(f.run("ppo", {{"dual_clip", 1.1}}), "dual_clip");
  expect_refused(f.run("cispo", {{"dual_clip", 3}}), "no setting \"dual_clip\"");
  Fixture g;
  g.add(0, {-1.0f}, {{"returns", {1}}});
  expect_refused(g.run("value"), "scalar head");
}

// On-policy distillation: advantages are the teacher's less the student's log-probability. Every
// token of a vocabulary of five stands once, weighted by its probability, so the sum is the
// expectation; its derivative by the student's logits is that of KL(student || teacher).
TEST(Distillation, ImportanceSamplingDescendsTheReverseKl) {
  const double logits[] = {0.3, -1.1, 0.8, 0.0, -0.4};
  const double teacher_logits[] = {-0.2, 0.5, 0.1, -0.9, 0.6};
  const auto log_softmax = [](std::span<const double> x) {
    double sum = 0.0;
    for (const double value : x) sum += std::exp(value);
    std::vector<double> out;
    for (const double value : x) out.push_back(value - std::log(sum));
    return out;
  };
  const auto student = log_softmax(logits);
  const auto teacher = log_softmax(teacher_logits);
  Datum datum;
  std::vector<float> logprobs;
  double kl = 0.0;
  for (size_t x = 0; x < 5; ++x) {
    const double p = std::exp(student[x]);
    kl += p * (student[x] - teacher[x]);
    datum.weights.push_back(static_cast<float>(p));
    datum.inputs["advantages"].push_back(static_cast<float>(teacher[x] - student[x]));
    datum.inputs["logprobs"].push_back(static_cast<float>(student[x]));
    logprobs.push_back(static_cast<float>(student[x]));
  }
  const LossInfo& loss = *find_loss("importance_sampling").value();
  const ObjectiveItem item{&datum, logprobs, {}};
  ObjectiveGradient gradient{.by_logprob = std::vector<double>(5), .by_value = {}};
  LossMetrics metrics;
  ASSERT_TRUE(
      loss.objective({&item, 1}, complete_settings(loss, {}).value(), {&gradient, 1}, metrics)
          .ok());
  for (size_t k = 0; k < 5; ++k) {
    double by_logit = 0.0;
    for (size_t x = 0; x < 5; ++x) {
      by_logit += gradient.by_logprob[x] * ((x == k ? 1.0 : 0.0) - std::exp(student[k]));
    }
    const double expected = std::exp(student[k]) * (student[k] - teacher[k] - kl);
    EXPECT_NEAR(by_logit, expected, 1e-6);  // inputs are rounded to f32
  }
}

TEST(PreferenceLoss, EqualPolicyAndReferenceGiveLogTwo) {
  Fixture f;
  f.add(2, {-1.0f, -3.0f}, {{"ref_logprobs", {-1.0f, -3.0f}}});
  f.add(1, {-2.0f}, {{"ref_logprobs", {-2.0f}}});
  ASSERT_TRUE(f.run("dpo").ok());
  EXPECT_NEAR(f.total, std::log(2.0), 1e-15);
  EXPECT_EQ(f.metrics["rewards/margins"].mean(), 0.0);
  EXPECT_EQ(f.metrics["rewards/accuracies"].mean(), 0.0);
  EXPECT_EQ(f.metrics["logps/rejected"].mean(), -4.0);
}

TEST(PreferenceLoss, RefusesWhatIsNoPair) {
  Fixture f;
  f.add(1, {-1.0f}, {{"ref_logprobs", {-1.0f}}});
  expect_refused(f.run("dpo"), "group 2: expected a pair");
  f.add(1, {-1.0f}, {{"ref_logprobs", {-1.0f}}});
  expect_refused(f.run("orpo"), "got roles 1, 1");
  f.datums[1].role = kRejected;
  expect_refused(f.run("kto"), "role 3");
  expect_refused(f.run("dpo_ipo", {{"beta", 0}}), "beta");
  f.datums[1].weights[0] = 0.0f;
  expect_refused(f.run("dpo"), "the datum of role 2 has no answer");
  expect_refused(f.run("reward_pair"), "scalar head");
}

TEST(Logistic, KeepsItsDigitsAtTheEnds) {
  EXPECT_EQ(exact_log1p(1e-18), 1e-18);
  EXPECT_NEAR(exact_log1p(1e-9), 1e-9 - 5e-19, 1e-24);
  EXPECT_NEAR(exact_expm1(1e-9), 1e-9 + 5e-19, 1e-24);
  EXPECT_NEAR(exact_expm1(2.0), std::expm1(2.0), 1e-14);
  EXPECT_EQ(log_sigmoid(-1000.0), -1000.0);
  EXPECT_EQ(log_sigmoid(1000.0), 0.0);
  EXPECT_NEAR(log_sigmoid(40.0), -std::exp(-40.0), 1e-30);
  EXPECT_EQ(sigmoid(0.0), 0.5);
  EXPECT_EQ(sigmoid(-1000.0), 0.0);
}

}  // namespace
}  // namespace mainspring

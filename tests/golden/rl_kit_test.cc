// Returns and the clipped surrogate against rlax, torchrl and stable-baselines3 (rl_kit/).
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/losses/losses.h"
#include "mainspring/losses/returns.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using Numbers = std::vector<double>;

Json cases_of(const std::string& family) {
  return test::read_json("tests/golden/rl_kit/algo_" + family + ".json")["cases"];
}

void expect_close(const Numbers& got, const Json& want, double rtol) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double expected = want[i].get<double>();
    EXPECT_LE(std::abs(got[i] - expected), rtol * (1.0 + std::abs(expected))) << i;
  }
}

bool is_set(const Json& flag) {
  return flag.is_boolean() ? flag.get<bool>() : flag.get<double>() != 0.0;
}

// A trajectory that owns its numbers.
struct OwnedSteps {
  Numbers rewards, discounts, values, next_values;
  std::vector<uint8_t> ends;

  EpisodeSteps view() const { return {rewards, discounts, values, next_values, ends}; }
};

// rlax's form: discounts say all, and values has one element more.
OwnedSteps with_values(const Json& inputs, const char* values) {
  OwnedSteps steps;
  steps.rewards = inputs["r_t"].get<Numbers>();
  steps.discounts = inputs["discount_t"].get<Numbers>();
  const auto all = inputs[values].get<Numbers>();
  steps.values.assign(all.begin(), all.end() - 1);
  steps.next_values.assign(all.begin() + 1, all.end());
  return steps;
}

// torchrl's form: one row of a batch, done and terminated apart.
OwnedSteps torchrl_row(const Json& inputs, size_t row, double gamma) {
  OwnedSteps steps;
  steps.rewards = inputs["reward"][row].get<Numbers>();
  steps.values = inputs["state_value"][row].get<Numbers>();
  steps.next_values = inputs["next_state_value"][row].get<Numbers>();
  for (size_t t = 0; t < steps.rewards.size(); ++t) {
    steps.discounts.push_back(is_set(inputs["terminated"][row][t]) ? 0.0 : gamma);
    steps.ends.push_back(is_set(inputs["done"][row][t]) ? 1 : 0);
  }
  return steps;
}

void check_sb3(const Json& c) {
  const Json& in = c["inputs"];
  const double gamma = c["params"]["gamma"].get<double>();
  const size_t num_steps = in["rewards"].size();
  for (size_t e = 0; e < in["last_values"].size(); ++e) {
    OwnedSteps steps;
    Numbers advantages, returns;
    for (size_t t = 0; t < num_steps; ++t) {
      const bool last = t + 1 == num_steps;
      const bool over = is_set(last ? in["last_dones"][e] : in["episode_starts"][t + 1][e]);
      steps.rewards.push_back(in["rewards"][t][e].get<double>());
      steps.values.push_back(in["values"][t][e].get<double>());
      steps.next_values.push_back(
          (last ? in["last_values"][e] : in["values"][t + 1][e]).get<double>());
      steps.discounts.push_back(over ? 0.0 : gamma);
      advantages.push_back(c["outputs"]["advantages"][t][e].get<double>());
      returns.push_back(c["outputs"]["returns"][t][e].get<double>());
    }
    Numbers got = gae(steps.view(), c["params"]["gae_lambda"].get<double>());
    expect_close(got, advantages, c["rtol"].get<double>());
    for (size_t t = 0; t < num_steps; ++t) got[t] += steps.values[t];
    expect_close(got, returns, c["rtol"].get<double>());
  }
}

TEST(RlKit, Gae) {
  for (const Json& c : cases_of("gae")) {
    SCOPED_TRACE(c["name"]);
    const double rtol = c["rtol"].get<double>();
    const std::string maker = c["made_by"];
    if (maker.starts_with("rlax")) {
      const OwnedSteps steps = with_values(c["inputs"], "values");
      expect_close(gae(steps.view(), c["params"]["lambda_"].get<double>()),
                   c["outputs"]["advantage"], rtol);
    } else if (maker.starts_with("torchrl")) {
      for (size_t row = 0; row < c["inputs"]["reward"].size(); ++row) {
        const OwnedSteps steps = torchrl_row(c["inputs"], row, c["params"]["gamma"].get<double>());
        expect_close(gae(steps.view(), c["params"]["lmbda"].get<double>()),
                     c["outputs"]["advantage"][row], rtol);
        expect_close(lambda_returns(steps.view(), Numbers(steps.rewards.size(), 0.8)),
                     c["outputs"]["td_lambda_return_0p8"][row], rtol);
      }
    } else {
      check_sb3(c);
    }
  }
}

TEST(RlKit, Vtrace) {
  for (const Json& c : cases_of("vtrace")) {
    SCOPED_TRACE(c["name"]);
    const Json& in = c["inputs"];
    const Json& params = c["params"];
    const double rtol = c["rtol"].get<double>();
    if (c["made_by"].get<std::string>().starts_with("rlax")) {
      const OwnedSteps steps{.rewards = in["r_t"].get<Numbers>(),
                             .discounts = in["discount_t"].get<Numbers>(),
                             .values = in["v_tm1"].get<Numbers>(),
                             .next_values = in["v_t"].get<Numbers>(),
                             .ends = {}};
      const VtraceResult got =
          vtrace(steps.view(), in["rho_tm1"].get<Numbers>(),
                 {.lambda = params["lambda_"].get<double>(),
                  .rho_bar = params["clip_rho_threshold"].get<double>(),
                  .pg_rho_bar = params["clip_pg_rho_threshold"].get<double>()});
      expect_close(got.targets, c["outputs"]["vs"], rtol);
      expect_close(got.advantages, c["outputs"]["pg_advantage"], rtol);
      continue;
    }
    for (size_t row = 0; row < in["reward"].size(); ++row) {
      const OwnedSteps steps = torchrl_row(in, row, params["gamma"].get<double>());
      Numbers ratios;
      for (size_t t = 0; t < steps.rewards.size(); ++t) {
        ratios.push_back(
            std::exp(in["log_pi"][row][t].get<double>() - in["log_mu"][row][t].get<double>()));
      }
      const VtraceResult got = vtrace(steps.view(), ratios,
                                      {.rho_bar = params["rho_thresh"].get<double>(),
                                       .c_bar = params["c_thresh"].get<double>(),
                                       .pg_rho_bar = params["rho_thresh"].get<double>()});
      expect_close(got.targets, c["outputs"]["value_target"][row], rtol);
      expect_close(got.advantages, c["outputs"]["advantage"][row], rtol);
    }
  }
}

TEST(RlKit, Returns) {
  for (const Json& c : cases_of("returns")) {
    SCOPED_TRACE(c["name"]);
    const Json& in = c["inputs"];
    const double rtol = c["rtol"].get<double>();
    const OwnedSteps steps{.rewards = in["r_t"].get<Numbers>(),
                           .discounts = in["discount_t"].get<Numbers>(),
                           .values = {},
                           .next_values = in["v_t"].get<Numbers>(),
                           .ends = {}};
    const size_t n = steps.rewards.size();
    const Numbers lambdas = in["lambda_"].is_array() ? in["lambda_"].get<Numbers>()
                                                     : Numbers(n, in["lambda_"].get<double>());
    expect_close(lambda_returns(steps.view(), lambdas), c["outputs"]["lambda_returns"], rtol);
    expect_close(lambda_returns(steps.view(), Numbers(n, 1.0)), c["outputs"]["discounted"], rtol);
    expect_close(n_step_returns(steps.view(), c["params"]["n"].get<int64_t>()),
                 c["outputs"]["n_step"], rtol);
  }
}

TEST(RlKit, Upgo) {
  for (const Json& c : cases_of("upgo")) {
    SCOPED_TRACE(c["name"]);
    const OwnedSteps steps = with_values(c["inputs"], "v");
    expect_close(upgo_returns(steps.view()), c["outputs"]["upgo_returns"], c["rtol"].get<double>());
  }
}

Numbers log_softmax(const Numbers& logits) {
  double largest = logits[0];
  for (const double x : logits) largest = std::max(largest, x);
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - largest);
  Numbers out;
  for (const double x : logits) out.push_back(x - largest - std::log(sum));
  return out;
}

// One datum of N tokens; the maker averages over them and differentiates by the logits behind. An
// objective's log-probabilities are f32, so its inputs are off by up to 2^-25 of a few.
TEST(RlKit, Ppo) {
  const LossInfo& loss = *find_loss("ppo").value();
  for (const Json& c : cases_of("policy_losses")) {
    SCOPED_TRACE(c["name"]);
    const double rtol = std::max(5e-7, c["rtol"].get<double>());
    const Json& in = c["inputs"];
    const size_t n = in["a"].size();
    const double epsilon = c["params"]["epsilon"].get<double>();
    Datum datum;
    std::vector<float> logprobs;
    std::vector<Numbers> log_probs;
    datum.weights.assign(n, 1.0f);
    for (size_t t = 0; t < n; ++t) {
      log_probs.push_back(log_softmax(in["logits"][t].get<Numbers>()));
      logprobs.push_back(static_cast<float>(log_probs[t][in["a"][t].get<size_t>()]));
      datum.inputs["logprobs"].push_back(in["old_logp"][t].get<float>());
      datum.inputs["advantages"].push_back(in["adv"][t].get<float>());
    }
    const LossSettings settings = complete_settings(loss, {{"clip_low_threshold", 1.0 - epsilon},
                                                           {"clip_high_threshold", 1.0 + epsilon}})
                                      .value();
    const ObjectiveItem item{&datum, logprobs, {}};
    ObjectiveGradient gradient{.by_logprob = Numbers(n), .by_value = {}};
    LossMetrics metrics;
    ASSERT_TRUE(loss.objective({&item, 1}, settings, {&gradient, 1}, metrics).ok());
    const auto count = static_cast<double>(n);
    expect_close({gradient.loss / count}, Json::array({c["outputs"]["ppo_loss"]}), rtol);
    for (size_t t = 0; t < n; ++t) {
      Numbers by_logit;
      for (size_t k = 0; k < log_probs[t].size(); ++k) {
        const double hit = k == in["a"][t].get<size_t>() ? 1.0 : 0.0;
        by_logit.push_back(gradient.by_logprob[t] / count * (hit - std::exp(log_probs[t][k])));
      }
      expect_close(by_logit, c["outputs"]["ppo_grad"][t], rtol);
    }
  }
}

}  // namespace
}  // namespace mainspring

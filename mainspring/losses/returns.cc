#include "mainspring/losses/returns.h"

#include <algorithm>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

void check_sizes(const EpisodeSteps& steps) {
  const size_t n = steps.rewards.size();
  MS_CHECK(steps.discounts.size() == n && steps.next_values.size() == n &&
               (steps.ends.empty() || steps.ends.size() == n),
           "a trajectory's rewards, discounts, next values and ends are equally many");
}

void check_values(const EpisodeSteps& steps) {
  check_sizes(steps);
  MS_CHECK(steps.values.size() == steps.rewards.size(),
           "a trajectory's values are as many as its rewards");
}

// Whether what comes after step t belongs to another episode, or is not known.
bool is_cut(const EpisodeSteps& steps, size_t t) {
  return t + 1 == steps.rewards.size() || (!steps.ends.empty() && steps.ends[t] != 0);
}

}  // namespace

std::vector<double> gae(const EpisodeSteps& steps, double lambda) {
  check_values(steps);
  std::vector<double> advantages(steps.rewards.size());
  for (size_t t = advantages.size(); t-- > 0;) {
    const double delta =
        steps.rewards[t] + steps.discounts[t] * steps.next_values[t] - steps.values[t];
    const double later = is_cut(steps, t) ? 0.0 : advantages[t + 1];
    advantages[t] = delta + steps.discounts[t] * lambda * later;
  }
  return advantages;
}

VtraceResult vtrace(const EpisodeSteps& steps, std::span<const double> ratios,
                    const VtraceOptions& options) {
  check_values(steps);
  const size_t n = steps.rewards.size();
  MS_CHECK(ratios.size() == n, "V-trace needs one ratio a step");
  VtraceResult result{std::vector<double>(n), std::vector<double>(n)};
  double error = 0.0;  // e_{t+1}
  for (size_t t = n; t-- > 0;) {
    const bool cut = is_cut(steps, t);
    const double discount = steps.discounts[t];
    const double delta = std::min(options.rho_bar, ratios[t]) *
                         (steps.rewards[t] + discount * steps.next_values[t] - steps.values[t]);
    const double c = options.lambda * std::min(options.c_bar, ratios[t]);
    error = delta + (cut ? 0.0 : discount * c * error);
    result.targets[t] = steps.values[t] + error;
    const double behind =
        cut ? steps.next_values[t]
            : options.lambda * result.targets[t + 1] + (1.0 - options.lambda) * steps.values[t + 1];
    result.advantages[t] = std::min(options.pg_rho_bar, ratios[t]) *
                           (steps.rewards[t] + discount * behind - steps.values[t]);
  }
  return result;
}

std::vector<double> lambda_returns(const EpisodeSteps& steps, std::span<const double> lambdas) {
  check_sizes(steps);
  MS_CHECK(lambdas.size() == steps.rewards.size(), "lambda returns need one lambda a step");
  std::vector<double> returns(steps.rewards.size());
  for (size_t t = returns.size(); t-- > 0;) {
    const double next = steps.next_values[t];
    const double later = is_cut(steps, t) ? next : returns[t + 1];
    returns[t] =
        steps.rewards[t] + steps.discounts[t] * ((1.0 - lambdas[t]) * next + lambdas[t] * later);
  }
  return returns;
}

std::vector<double> n_step_returns(const EpisodeSteps& steps, int64_t n) {
  check_sizes(steps);
  MS_CHECK(n > 0, "n-step returns: n is at least 1");
  std::vector<double> returns(steps.rewards.size());
  for (size_t t = 0; t < returns.size(); ++t) {
    size_t last = t;  // the last step that counts
    while (static_cast<int64_t>(last - t) + 1 < n && !is_cut(steps, last)) ++last;
    double sum = steps.next_values[last];
    for (size_t k = last + 1; k-- > t;) sum = steps.rewards[k] + steps.discounts[k] * sum;
    returns[t] = sum;
  }
  return returns;
}

std::vector<double> upgo_returns(const EpisodeSteps& steps) {
  check_values(steps);
  std::vector<double> lambdas(steps.rewards.size(), 1.0);
  for (size_t t = 0; t + 1 < lambdas.size(); ++t) {
    const double next = steps.rewards[t + 1] + steps.discounts[t + 1] * steps.next_values[t + 1];
    lambdas[t] = next >= steps.values[t + 1] ? 1.0 : 0.0;
  }
  return lambda_returns(steps, lambdas);
}

}  // namespace mainspring

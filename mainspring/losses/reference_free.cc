// Preference losses without a reference policy: ORPO, SimPO, CPO.
#include "mainspring/base/elementary.h"
#include "mainspring/losses/logistic.h"
#include "mainspring/losses/preference_losses.h"
#include "mainspring/losses/preference_pair.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

struct PairSums {
  AnswerPair at;
  AnswerSums chosen;
  AnswerSums rejected;
};

Result<PairSums> pair_sums(std::span<const ObjectiveItem> items) {
  PairSums pair;
  MS_ASSIGN_OR_RETURN(pair.at, pair_of(items));
  MS_ASSIGN_OR_RETURN(pair.chosen, sums_of(items[pair.at.chosen]));
  MS_ASSIGN_OR_RETURN(pair.rejected, sums_of(items[pair.at.rejected]));
  return pair;
}

// -log sigmoid(margin), margin = by_chosen * S_chosen - by_rejected * S_rejected - gamma, and the
// SFT term.
void add_sigmoid(const PairSums& pair, double by_chosen, double by_rejected, double gamma,
                 double sft, std::span<const ObjectiveItem> items,
                 std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double chosen = by_chosen * pair.chosen.logprob;
  const double rejected = by_rejected * pair.rejected.logprob;
  const double margin = chosen - rejected - gamma;
  const double slope = -sigmoid(-margin);
  const double mean = pair.chosen.logprob / pair.chosen.length;
  gradients[pair.at.chosen].loss += -log_sigmoid(margin) - sft * mean;
  add_slope(items[pair.at.chosen], slope * by_chosen - sft / pair.chosen.length,
            gradients[pair.at.chosen]);
  add_slope(items[pair.at.rejected], -slope * by_rejected, gradients[pair.at.rejected]);
  add_reward_metrics(chosen, rejected, metrics);
  if (sft > 0.0) metrics["sft_loss"].add(-mean);
}

void add_logps(const PairSums& pair, LossMetrics& metrics) {
  metrics["logps/chosen"].add(pair.chosen.logprob);
  metrics["logps/rejected"].add(pair.rejected.logprob);
}

struct LogOdds {
  double value = 0.0;
  double by_mean = 0.0;
};

// log(e^p / (1 - e^p)); its derivative is 1 / (1 - e^p).
LogOdds log_odds(double mean) {
  const double other = -exact_expm1(mean);
  return {mean - exact_log(other), 1.0 / other};
}

}  // namespace

Status orpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
            std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double beta = setting(settings, "beta");
  MS_ASSIGN_OR_RETURN(const PairSums pair, pair_sums(items));
  const double chosen_mean = pair.chosen.logprob / pair.chosen.length;
  const double rejected_mean = pair.rejected.logprob / pair.rejected.length;
  const LogOdds chosen = log_odds(chosen_mean);
  const LogOdds rejected = log_odds(rejected_mean);
  const double ratio = chosen.value - rejected.value;
  const double slope = -beta * sigmoid(-ratio);
  gradients[pair.at.chosen].loss += -chosen_mean - beta * log_sigmoid(ratio);
  add_slope(items[pair.at.chosen], (slope * chosen.by_mean - 1.0) / pair.chosen.length,
            gradients[pair.at.chosen]);
  add_slope(items[pair.at.rejected], -slope * rejected.by_mean / pair.rejected.length,
            gradients[pair.at.rejected]);
  add_reward_metrics(beta * chosen_mean, beta * rejected_mean, metrics);
  add_logps(pair, metrics);
  metrics["log_odds"].add(ratio);
  return {};
}

Status simpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
             std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double beta = setting(settings, "beta");
  MS_ASSIGN_OR_RETURN(const PairSums pair, pair_sums(items));
  add_sigmoid(pair, beta / pair.chosen.length, beta / pair.rejected.length,
              setting(settings, "gamma"), setting(settings, "sft_coef"), items, gradients, metrics);
  add_logps(pair, metrics);
  return {};
}

Status cpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double beta = setting(settings, "beta");
  MS_ASSIGN_OR_RETURN(const PairSums pair, pair_sums(items));
  add_sigmoid(pair, beta, beta, 0.0, setting(settings, "sft_coef"), items, gradients, metrics);
  add_logps(pair, metrics);
  return {};
}

}  // namespace mainspring

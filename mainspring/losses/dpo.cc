// DPO and its variants: one function of the implicit rewards' margin each.
#include "mainspring/losses/logistic.h"
#include "mainspring/losses/preference_losses.h"
#include "mainspring/losses/preference_pair.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

// A variant's loss as a function of the log-ratios' difference.
struct MarginLoss {
  double loss = 0.0;
  double by_difference = 0.0;
};
using Variant = MarginLoss (*)(double difference, double beta, double smoothing);

MarginLoss sigmoid_loss(double difference, double beta, double) {
  const double h = beta * difference;
  return {-log_sigmoid(h), -beta * sigmoid(-h)};
}

MarginLoss ipo_loss(double difference, double beta, double) {
  const double error = difference - 1.0 / (2.0 * beta);
  return {error * error, 2.0 * error};
}

MarginLoss hinge_loss(double difference, double beta, double) {
  const double slack = 1.0 - beta * difference;
  return slack > 0.0 ? MarginLoss{slack, -beta} : MarginLoss{};
}

MarginLoss robust_loss(double difference, double beta, double smoothing) {
  const double h = beta * difference;
  const double scale = 1.0 / (1.0 - 2.0 * smoothing);
  return {scale * (smoothing * log_sigmoid(-h) - (1.0 - smoothing) * log_sigmoid(h)),
          -scale * beta * ((1.0 - smoothing) * sigmoid(-h) + smoothing * sigmoid(h))};
}

MarginLoss conservative_loss(double difference, double beta, double smoothing) {
  const double h = beta * difference;
  return {-(1.0 - smoothing) * log_sigmoid(h) - smoothing * log_sigmoid(-h),
          beta * (smoothing * sigmoid(h) - (1.0 - smoothing) * sigmoid(-h))};
}

Status pair_loss(Variant variant, double smoothing, std::span<const ObjectiveItem> items,
                 const LossSettings& settings, std::span<ObjectiveGradient> gradients,
                 LossMetrics& metrics) {
  MS_ASSIGN_OR_RETURN(const AnswerPair pair, pair_of(items));
  MS_ASSIGN_OR_RETURN(const int normalised, whole_setting(settings, "length_normalised"));
  MS_ASSIGN_OR_RETURN(const AnswerSums chosen, sums_of(items[pair.chosen]));
  MS_ASSIGN_OR_RETURN(const AnswerSums rejected, sums_of(items[pair.rejected]));
  const double beta = setting(settings, "beta");
  const double sft = setting(settings, "sft_coef");
  const double by_chosen = normalised != 0 ? 1.0 / chosen.length : 1.0;
  const double by_rejected = normalised != 0 ? 1.0 / rejected.length : 1.0;
  const double chosen_ratio = by_chosen * chosen.log_ratio();
  const double rejected_ratio = by_rejected * rejected.log_ratio();
  const MarginLoss margin = variant(chosen_ratio - rejected_ratio, beta, smoothing);
  gradients[pair.chosen].loss += margin.loss - sft * chosen.logprob / chosen.length;
  add_slope(items[pair.chosen], margin.by_difference * by_chosen - sft / chosen.length,
            gradients[pair.chosen]);
  add_slope(items[pair.rejected], -margin.by_difference * by_rejected, gradients[pair.rejected]);
  add_reward_metrics(beta * chosen_ratio, beta * rejected_ratio, metrics);
  metrics["logps/chosen"].add(chosen.logprob);
  metrics["logps/rejected"].add(rejected.logprob);
  if (sft > 0.0) metrics["sft_loss"].add(-chosen.logprob / chosen.length);
  return {};
}

}  // namespace

Status dpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  return pair_loss(sigmoid_loss, 0.0, items, settings, gradients, metrics);
}

Status dpo_ipo(std::span<const ObjectiveItem> items, const LossSettings& settings,
               std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  if (setting(settings, "beta") == 0.0) {
    return invalid_argument("dpo_ipo: beta: expected above 0: its target is 1 / (2 beta)");
  }
  return pair_loss(ipo_loss, 0.0, items, settings, gradients, metrics);
}

Status dpo_hinge(std::span<const ObjectiveItem> items, const LossSettings& settings,
                 std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  return pair_loss(hinge_loss, 0.0, items, settings, gradients, metrics);
}

Status dpo_robust(std::span<const ObjectiveItem> items, const LossSettings& settings,
                  std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  return pair_loss(robust_loss, setting(settings, "label_smoothing"), items, settings, gradients,
                   metrics);
}

Status dpo_conservative(std::span<const ObjectiveItem> items, const LossSettings& settings,
                        std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  return pair_loss(conservative_loss, setting(settings, "label_smoothing"), items, settings,
                   gradients, metrics);
}

}  // namespace mainspring

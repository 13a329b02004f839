// KTO: single answers, good or bad, against a reference point that mismatched answers give.
#include <algorithm>
#include <string>

#include "mainspring/losses/logistic.h"
#include "mainspring/losses/preference_losses.h"
#include "mainspring/losses/preference_pair.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

// z0: how far the policy is from the reference on answers that have nothing to do with the prompt.
Result<double> reference_point(std::span<const ObjectiveItem> items) {
  double sum = 0.0;
  double count = 0.0;
  for (const ObjectiveItem& item : items) {
    if (item.datum->role != kMismatched) continue;
    MS_ASSIGN_OR_RETURN(const AnswerSums sums, sums_of(item));
    sum += sums.log_ratio();
    count += 1.0;
  }
  if (count == 0.0) {
    return invalid_argument("group " + std::to_string(items[0].datum->group) +
                            ": kto needs a datum of role 3: a prompt with another one's answer");
  }
  return std::max(0.0, sum / count);
}

}  // namespace

Status kto(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double beta = setting(settings, "beta");
  MS_ASSIGN_OR_RETURN(const double z0, reference_point(items));
  metrics["kl"].add(z0);
  for (size_t i = 0; i < items.size(); ++i) {
    const int32_t role = items[i].datum->role;
    if (role == kMismatched) continue;
    if (role != kChosen && role != kRejected) {
      return invalid_argument(
          "group " + std::to_string(items[i].datum->group) +
          ": expected datums of role 1 (chosen), 2 (rejected) or 3 (mismatched), got " +
          std::to_string(role));
    }
    MS_ASSIGN_OR_RETURN(const AnswerSums sums, sums_of(items[i]));
    const bool is_chosen = role == kChosen;
    const double sign = is_chosen ? 1.0 : -1.0;
    const double weight = setting(settings, is_chosen ? "desirable_weight" : "undesirable_weight");
    const double h = sign * beta * (sums.log_ratio() - z0);
    gradients[i].loss += weight * sigmoid(-h);  // 1 - sigmoid(h)
    add_slope(items[i], -weight * sign * beta * sigmoid(h) * sigmoid(-h), gradients[i]);
    metrics[is_chosen ? "rewards/chosen" : "rewards/rejected"].add(beta * sums.log_ratio());
    metrics[is_chosen ? "logps/chosen" : "logps/rejected"].add(sums.logprob);
  }
  return {};
}

}  // namespace mainspring

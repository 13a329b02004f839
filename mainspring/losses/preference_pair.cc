#include "mainspring/losses/preference_pair.h"

#include "mainspring/losses/preference_losses.h"

namespace mainspring {

Result<AnswerPair> pair_of(std::span<const ObjectiveItem> items) {
  if (items.size() == 2) {
    const int32_t first = items[0].datum->role;
    const int32_t second = items[1].datum->role;
    if (first == kChosen && second == kRejected) return AnswerPair{0, 1};
    if (first == kRejected && second == kChosen) return AnswerPair{1, 0};
  }
  std::string roles;
  for (const ObjectiveItem& item : items) {
    roles += (roles.empty() ? "" : ", ") + std::to_string(item.datum->role);
  }
  return invalid_argument("group " + std::to_string(items[0].datum->group) +
                          ": expected a pair, one datum of role 1 (chosen) and one of role 2 "
                          "(rejected), got roles " +
                          roles);
}

Result<AnswerSums> sums_of(const ObjectiveItem& item) {
  const Datum& datum = *item.datum;
  const auto ref = datum.inputs.find("ref_logprobs");
  AnswerSums sums;
  for (size_t t = 0; t < datum.weights.size(); ++t) {
    if (datum.weights[t] == 0.0f) continue;
    const auto weight = static_cast<double>(datum.weights[t]);
    sums.length += weight;
    sums.logprob += weight * static_cast<double>(item.logprobs[t]);
    if (ref != datum.inputs.end()) sums.ref += weight * static_cast<double>(ref->second[t]);
  }
  if (!(sums.length > 0.0)) {
    return invalid_argument("group " + std::to_string(datum.group) + ": the datum of role " +
                            std::to_string(datum.role) +
                            " has no answer: its weights must sum to more than 0");
  }
  return sums;
}

void add_slope(const ObjectiveItem& item, double slope, ObjectiveGradient& gradient) {
  const std::vector<float>& weights = item.datum->weights;
  for (size_t t = 0; t < weights.size(); ++t) {
    if (weights[t] != 0.0f) gradient.by_logprob[t] += slope * static_cast<double>(weights[t]);
  }
}

void add_reward_metrics(double chosen, double rejected, LossMetrics& metrics) {
  metrics["rewards/chosen"].add(chosen);
  metrics["rewards/rejected"].add(rejected);
  metrics["rewards/margins"].add(chosen - rejected);
  metrics["rewards/accuracies"].add(chosen > rejected ? 1.0 : 0.0);
}

}  // namespace mainspring

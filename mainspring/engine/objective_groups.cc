#include "mainspring/engine/objective_groups.h"

#include <algorithm>
#include <map>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

bool learns_everywhere(const Datum& datum) {
  return std::find(datum.weights.begin(), datum.weights.end(), 0.0f) == datum.weights.end();
}

// Leaves the log-probabilities of learned positions, 0 elsewhere.
std::vector<float> learned_only(const Datum& datum, std::span<const float> logprobs) {
  std::vector<float> learned(logprobs.begin(), logprobs.end());
  for (size_t t = 0; t < learned.size(); ++t) {
    if (datum.weights[t] == 0.0f) learned[t] = 0.0f;
  }
  return learned;
}

void ignore_unlearned(const Datum& datum, std::vector<double>& derivatives) {
  for (size_t t = 0; t < derivatives.size(); ++t) {
    if (datum.weights[t] == 0.0f) derivatives[t] = 0.0;
  }
}

}  // namespace

std::vector<std::vector<size_t>> objective_groups(LossScope scope,
                                                  std::span<const PackItem> items) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::pair<int32_t, int64_t>, size_t> known;
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t group = items[i].datum->group;
    if (scope != LossScope::kGroup || group < 0) {
      groups.push_back({i});
      continue;
    }
    const auto [place, is_new] = known.emplace(std::pair{items[i].slot, group}, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(i);
  }
  return groups;
}

Result<std::vector<ObjectiveGradient>> evaluate_objective(
    const LossInfo& loss, const LossSettings& settings, std::span<const Datum* const> datums,
    std::span<const std::span<const float>> logprobs, LossMetrics& metrics) {
  std::vector<ObjectiveItem> items(datums.size());
  std::vector<ObjectiveGradient> gradients(datums.size());
  std::vector<std::vector<float>> learned(datums.size());
  for (size_t i = 0; i < datums.size(); ++i) {
    items[i] = {.datum = datums[i], .logprobs = logprobs[i], .values = {}};
    if (!learns_everywhere(*datums[i])) {
      learned[i] = learned_only(*datums[i], logprobs[i]);
      items[i].logprobs = learned[i];
    }
    gradients[i].by_logprob.assign(logprobs[i].size(), 0.0);
  }
  Status status = loss.objective(items, settings, gradients, metrics);
  if (!status.ok()) {
    const int64_t group = datums[0]->group;
    return loss.scope == LossScope::kGroup && group >= 0
               ? status.with_context("group " + std::to_string(group))
               : status;
  }
  for (size_t i = 0; i < datums.size(); ++i) {
    MS_CHECK(gradients[i].by_logprob.size() == logprobs[i].size(),
             "an objective changed the number of derivatives");
    ignore_unlearned(*datums[i], gradients[i].by_logprob);
  }
  return gradients;
}

}  // namespace mainspring

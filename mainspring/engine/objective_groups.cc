#include "mainspring/engine/objective_groups.h"

#include <algorithm>
#include <map>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

bool learns_everywhere(const Datum& datum) {
  return std::find(datum.weights.begin(), datum.weights.end(), 0.0f) == datum.weights.end();
}

// What is not learned becomes 0; `values` has an entry for each token, or k of them.
template <typename T>
void clear_unlearned(const Datum& datum, std::vector<T>& values) {
  const size_t k = values.size() / datum.weights.size();
  for (size_t t = 0; t < datum.weights.size(); ++t) {
    if (datum.weights[t] == 0.0f)
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(t * k), k, T{0});
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

Result<std::vector<ObjectiveGradient>> evaluate_objective(const LossInfo& loss,
                                                          const LossSettings& settings,
                                                          std::vector<ObjectiveItem> items,
                                                          LossMetrics& metrics) {
  std::vector<ObjectiveGradient> gradients(items.size());
  std::vector<std::vector<float>> learned;  // copies
  learned.reserve(3 * items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    ObjectiveItem& item = items[i];
    gradients[i].by_logprob.assign(item.logprobs.size(), 0.0);
    gradients[i].by_value.assign(item.values.size(), 0.0);
    gradients[i].by_candidate.assign(item.candidate_logprobs.size(), 0.0);
    if (learns_everywhere(*item.datum)) continue;
    for (auto* values : {&item.logprobs, &item.values, &item.candidate_logprobs}) {
      std::vector<float>& copy = learned.emplace_back(values->begin(), values->end());
      clear_unlearned(*item.datum, copy);
      *values = copy;
    }
  }
  Status status = loss.objective(items, settings, gradients, metrics);
  if (!status.ok()) {
    const int64_t group = items[0].datum->group;
    const bool is_named = group < 0 || status.message().starts_with("group ");
    return is_named ? status : status.with_context("group " + std::to_string(group));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    MS_CHECK(gradients[i].by_logprob.size() == items[i].logprobs.size() &&
                 gradients[i].by_value.size() == items[i].values.size() &&
                 gradients[i].by_candidate.size() == items[i].candidate_logprobs.size(),
             "an objective changed the number of derivatives");
    clear_unlearned(*items[i].datum, gradients[i].by_logprob);
    clear_unlearned(*items[i].datum, gradients[i].by_value);
    clear_unlearned(*items[i].datum, gradients[i].by_candidate);
  }
  return gradients;
}

}  // namespace mainspring

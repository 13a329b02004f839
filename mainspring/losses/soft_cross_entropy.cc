#include "mainspring/losses/soft_cross_entropy.h"

#include "mainspring/base/elementary.h"

namespace mainspring {

Status soft_cross_entropy(std::span<const ObjectiveItem> items, const LossSettings&,
                          std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  for (size_t i = 0; i < items.size(); ++i) {
    const Datum& datum = *items[i].datum;
    if (datum.candidate_weights.empty()) {
      return invalid_argument("soft_cross_entropy needs candidate_weights beside the candidates");
    }
    const size_t k = datum.candidates.size() / datum.tokens.size();
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      double divergence = 0.0;
      for (size_t j = t * k; j < (t + 1) * k; ++j) {
        const double p = static_cast<double>(datum.candidate_weights[j]);
        if (datum.candidates[j] < 0 || p == 0.0) continue;
        const double logprob = static_cast<double>(items[i].candidate_logprobs[j]);
        const double w = static_cast<double>(datum.weights[t]) * p;
        gradients[i].loss -= w * logprob;
        gradients[i].by_candidate[j] = -w;
        if (p > 0.0) divergence += p * (exact_log(p) - logprob);
      }
      metrics["forward_kl"].add(divergence);
    }
  }
  return {};
}

}  // namespace mainspring

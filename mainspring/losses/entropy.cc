#include "mainspring/losses/entropy.h"

#include "mainspring/base/elementary.h"

namespace mainspring {

Status entropy(std::span<const ObjectiveItem> items, const LossSettings&,
               std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  for (size_t i = 0; i < items.size(); ++i) {
    const Datum& datum = *items[i].datum;
    const size_t k = datum.candidates.size() / datum.tokens.size();
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      const double w = static_cast<double>(datum.weights[t]);
      double sum = 0.0;
      for (size_t j = t * k; j < (t + 1) * k; ++j) {
        if (datum.candidates[j] < 0) continue;
        const double logprob = static_cast<double>(items[i].candidate_logprobs[j]);
        const double p = exact_exp(logprob);
        sum += p * logprob;
        gradients[i].by_candidate[j] = w * p * (logprob + 1.0);
      }
      gradients[i].loss += w * sum;
      metrics["entropy"].add(-sum);
    }
  }
  return {};
}

}  // namespace mainspring

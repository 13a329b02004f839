#include "mainspring/losses/importance_sampling.h"

#include "mainspring/base/elementary.h"

namespace mainspring {

Status importance_sampling(std::span<const ObjectiveItem> items, const LossSettings&,
                           std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  for (size_t i = 0; i < items.size(); ++i) {
    const Datum& datum = *items[i].datum;
    const std::vector<float>& sampled = datum.inputs.at("logprobs");
    const std::vector<float>& advantages = datum.inputs.at("advantages");
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      const double ratio =
          exact_exp(static_cast<double>(items[i].logprobs[t]) - static_cast<double>(sampled[t]));
      // The derivative of exp is exp, so the loss is its own derivative by the log-probability.
      const double term =
          -static_cast<double>(datum.weights[t]) * ratio * static_cast<double>(advantages[t]);
      gradients[i].loss += term;
      gradients[i].by_logprob[t] = term;
      metrics["ratio"].add(ratio);
    }
  }
  return {};
}

}  // namespace mainspring

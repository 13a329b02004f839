// The squared error of a critic's values.
#include <algorithm>

#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

struct ValueTerm {
  double loss = 0.0;
  double by_value = 0.0;
};

ValueTerm value_term(double value, double target, const float* old, double clip) {
  const double error = value - target;
  ValueTerm term{0.5 * error * error, error};
  if (old == nullptr || clip == 0.0) return term;
  const double anchor = static_cast<double>(*old);
  const double near = std::clamp(value, anchor - clip, anchor + clip);
  const double near_error = near - target;
  if (0.5 * near_error * near_error > term.loss) {
    // The value itself is the clipped one only inside the bounds, and there both losses are equal.
    return {0.5 * near_error * near_error, 0.0};
  }
  return term;
}

}  // namespace

Status value_loss(std::span<const ObjectiveItem> items, const LossSettings& settings,
                  std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double clip = setting(settings, "clip");
  const double coef = setting(settings, "coef");
  for (size_t i = 0; i < items.size(); ++i) {
    const Datum& datum = *items[i].datum;
    if (items[i].values.size() != datum.weights.size()) {
      return invalid_argument("the loss needs a model with a scalar head: there are no values");
    }
    const auto old = datum.inputs.find("old_values");
    if (clip > 0.0 && old == datum.inputs.end()) {
      return invalid_argument("clip is " + std::to_string(clip) +
                              ", so each datum needs the input \"old_values\"");
    }
    const std::vector<float>& returns = datum.inputs.at("returns");
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      const double value = static_cast<double>(items[i].values[t]);
      const ValueTerm term =
          value_term(value, static_cast<double>(returns[t]),
                     old == datum.inputs.end() ? nullptr : &old->second[t], clip);
      const double scale = static_cast<double>(datum.weights[t]) * coef;
      gradients[i].loss += scale * term.loss;
      gradients[i].by_value[t] += scale * term.by_value;
      metrics["value"].add(value);
      metrics["value_error"].add((value - static_cast<double>(returns[t])) *
                                 (value - static_cast<double>(returns[t])));
    }
  }
  return {};
}

}  // namespace mainspring

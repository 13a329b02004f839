// SAPO: a sigmoid gate over the ratio.
#include "mainspring/losses/logistic.h"
#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/setting.h"

namespace mainspring {

Status sapo(std::span<const ObjectiveItem> items, const LossSettings& settings,
            std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double tau_positive = setting(settings, "tau_positive");
  const double tau_negative = setting(settings, "tau_negative");
  for (size_t i = 0; i < items.size(); ++i) {
    MS_ASSIGN_OR_RETURN(PolicySum sum, PolicySum::open(items[i], settings, gradients[i]));
    for (const PolicyToken& token : sum.tokens()) {
      const double tau = token.advantage > 0.0 ? tau_positive : tau_negative;
      const double gate = sigmoid(tau * (token.ratio - 1.0));
      const double other = sigmoid(-tau * (token.ratio - 1.0));
      sum.add(token, -4.0 / tau * gate * token.advantage,
              -4.0 * gate * other * token.ratio * token.advantage, false);
    }
    sum.close(metrics);
  }
  return {};
}

}  // namespace mainspring

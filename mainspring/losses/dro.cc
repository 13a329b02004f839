// DRO: a policy gradient with a quadratic pull to the sampling policy.
#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/setting.h"

namespace mainspring {

Status dro(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double beta = setting(settings, "beta");
  for (size_t i = 0; i < items.size(); ++i) {
    MS_ASSIGN_OR_RETURN(PolicySum sum, PolicySum::open(items[i], settings, gradients[i]));
    for (const PolicyToken& token : sum.tokens()) {
      const double pull = beta * token.log_ratio;
      const double loss = 0.5 * pull * token.log_ratio - token.logprob * token.advantage;
      sum.add(token, loss, pull - token.advantage, false);
    }
    sum.close(metrics);
  }
  return {};
}

}  // namespace mainspring

// CISPO: the importance weight is clipped, the token is not.
#include <algorithm>

#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/setting.h"

namespace mainspring {

Status cispo(std::span<const ObjectiveItem> items, const LossSettings& settings,
             std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double low = setting(settings, "clip_low_threshold");
  const double high = setting(settings, "clip_high_threshold");
  for (size_t i = 0; i < items.size(); ++i) {
    MS_ASSIGN_OR_RETURN(PolicySum sum, PolicySum::open(items[i], settings, gradients[i]));
    for (const PolicyToken& token : sum.tokens()) {
      const double ratio = std::clamp(token.ratio, low, high);
      const double slope = -ratio * token.advantage;
      sum.add(token, slope * token.logprob, slope, ratio != token.ratio);
    }
    sum.close(metrics);
  }
  return {};
}

}  // namespace mainspring

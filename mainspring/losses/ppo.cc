// PPO's clipped surrogate, with asymmetric thresholds and the dual clip.
#include <algorithm>

#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/setting.h"

namespace mainspring {

Status ppo(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  const double low = setting(settings, "clip_low_threshold");
  const double high = setting(settings, "clip_high_threshold");
  const double dual = setting(settings, "dual_clip");
  if (dual > 0.0 && dual <= high) {
    return invalid_argument("dual_clip: expected 0, or above clip_high_threshold (" +
                            std::to_string(high) + "), got " + std::to_string(dual));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    MS_ASSIGN_OR_RETURN(PolicySum sum, PolicySum::open(items[i], settings, gradients[i]));
    for (const PolicyToken& token : sum.tokens()) {
      const double plain = token.ratio * token.advantage;
      const double clipped = std::clamp(token.ratio, low, high) * token.advantage;
      const double floor = dual * token.advantage;
      if (dual > 0.0 && token.advantage < 0.0 && std::min(plain, clipped) < floor) {
        sum.add(token, -floor, 0.0, true);
      } else if (clipped < plain) {
        sum.add(token, -clipped, 0.0, true);
      } else {
        sum.add(token, -plain, -plain, false);
      }
    }
    sum.close(metrics);
  }
  return {};
}

}  // namespace mainspring

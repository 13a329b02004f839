// GSPO: one length-normalised ratio for a whole answer.
#include <algorithm>

#include "mainspring/base/elementary.h"
#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

Status gspo_of(const ObjectiveItem& item, const LossSettings& settings, ObjectiveGradient& gradient,
               LossMetrics& metrics) {
  const double low = setting(settings, "clip_low_threshold");
  const double high = setting(settings, "clip_high_threshold");
  MS_ASSIGN_OR_RETURN(PolicySum sum, PolicySum::open(item, settings, gradient));
  if (sum.tokens().empty()) return {};
  double log_ratio = 0.0;
  for (const PolicyToken& token : sum.tokens()) log_ratio += token.log_ratio;
  const auto count = static_cast<double>(sum.tokens().size());
  const double ratio = exact_exp(log_ratio / count);
  const double clipped_ratio = std::clamp(ratio, low, high);
  double by_log_ratio = 0.0;  // derivative of the datum's loss by log s
  for (const PolicyToken& token : sum.tokens()) {
    const double plain = ratio * token.advantage;
    const double clipped = clipped_ratio * token.advantage;
    const bool is_clipped = clipped < plain;
    sum.add(token, is_clipped ? -clipped : -plain, 0.0, is_clipped);
    if (!is_clipped && token.factor != 0.0) by_log_ratio -= token.weight * token.factor * plain;
  }
  sum.add_to_all(by_log_ratio / count);
  sum.close(metrics);
  metrics["sequence_ratio"].add(ratio);
  return {};
}

}  // namespace

Status gspo(std::span<const ObjectiveItem> items, const LossSettings& settings,
            std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  for (size_t i = 0; i < items.size(); ++i) {
    MS_RETURN_IF_ERROR(gspo_of(items[i], settings, gradients[i], metrics));
  }
  return {};
}

}  // namespace mainspring

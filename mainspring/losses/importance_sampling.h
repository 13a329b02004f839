// The policy gradient with importance weights.
#pragma once

#include "mainspring/losses/objective.h"

namespace mainspring {

/// Per token: -weights_t * exp(logprob_t - logprobs_t) * advantages_t, where "logprobs" are those
/// of the policy that sampled. Metric "ratio": of the learned tokens. Source: Kloek & van Dijk 1978
/// (the estimator); its gradient at ratio 1 is Williams 1992's.
Status importance_sampling(std::span<const ObjectiveItem> items, const LossSettings& settings,
                           std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

}  // namespace mainspring

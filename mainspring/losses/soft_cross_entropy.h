// Cross-entropy against a distribution instead of one token.
#pragma once

#include "mainspring/losses/objective.h"

namespace mainspring {

/// Per token: -weights_t * sum_k candidate_weights_tk * logprob of candidate k. With a teacher's
/// probabilities as candidate weights it is forward KL but for the teacher's entropy; metric
/// "forward_kl": of the learned tokens, over the candidates with a weight above 0.
/// Source: Hinton, Vinyals & Dean 2015, arXiv:1503.02531.
Status soft_cross_entropy(std::span<const ObjectiveItem> items, const LossSettings& settings,
                          std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

}  // namespace mainspring

// The entropy of the next token's law, as a figure and as a bonus.
#pragma once

#include "mainspring/losses/objective.h"

namespace mainspring {

/// Per token: weights_t * sum_k p_k log p_k over the datum's candidates, so that minimising it
/// raises the entropy. With the whole vocabulary as candidates it is the entropy itself; with
/// fewer, their share of it. Metric "entropy": of the learned tokens.
Status entropy(std::span<const ObjectiveItem> items, const LossSettings& settings,
               std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

}  // namespace mainspring

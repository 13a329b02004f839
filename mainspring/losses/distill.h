// Distillation: the distance of the student's law from a teacher's over candidate tokens.
#pragma once

#include "mainspring/losses/objective.h"

namespace mainspring {

/// Per token: weights_t * T^2 * D(p, q) with q = softmax(logprob / T) of the student and p =
/// softmax(log(candidate_weights) / T) of the teacher, both over the datum's candidates (the
/// teacher's best k, or the whole vocabulary). D by "divergence": 0 forward KL(p || q), 1 reverse
/// KL(q || p), 2 generalised Jensen-Shannon: b KL(p || m) + (1 - b) KL(q || m), m = b p + (1 - b)
/// q. Metric "divergence": D of the learned tokens. Errors: invalid argument for a candidate whose
/// weight is not above 0. Source: Hinton, Vinyals & Dean 2015, arXiv:1503.02531 (temperature);
/// Agarwal et al. 2023, arXiv:2306.13649 (divergences).
Status distill(std::span<const ObjectiveItem> items, const LossSettings& settings,
               std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr LossSetting kDistillSettings[] = {
    {"divergence", 0, 0, 2, "0 forward KL, 1 reverse KL, 2 Jensen-Shannon"},
    {"temperature", 1, 1e-3, 1e3, "of both laws"},
    {"jsd_beta", 0.5, 1e-6, 0.999999, "Jensen-Shannon: the teacher's share of the mixture"},
};

}  // namespace mainspring

// Policy losses: what a sampled token's advantage and ratio make of its log-probability.
//
// The one idea: each is a sum over learned tokens of weight * factor * L(ratio, advantage), where
// weight is Datum::weights (mask and normaliser in one: 1 sums over tokens, 1 / length averages
// over a sequence), the factor and the ratio r come from policy_terms.h, and L is below, A being
// the advantage and lp the log-probability. A KL term to a reference may be added
// (policy_terms.h). Inputs, signs and the names of thresholds are Tinker's; a loss without an
// entropy term: the whole distribution is not seen here. One file per family.
#pragma once

#include "mainspring/losses/policy_terms.h"

namespace mainspring {

/// L = -min(r A, clip(r, low, high) A); with dual_clip c > 0 and A < 0 at most -c A. dL/dlp = -r A,
/// 0 where the clipped side is taken. DAPO's clip-higher is another high threshold. Source:
/// Schulman et al. 2017, arXiv:1707.06347, eq. 7; dual clip: Ye et al. 2020, arXiv:1912.09729, eq.
/// 5; Yu et al. 2025 (DAPO), arXiv:2503.14476.
Status ppo(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr auto kPpoSettings = with_policy_settings({
    {"clip_low_threshold", 0.8, 0, 1, "the ratio is clipped below it"},
    {"clip_high_threshold", 1.2, 1, 1e6, "the ratio is clipped above it"},
    {"dual_clip", 0, 0, 1e6, "bound of the ratio where the advantage is negative; 0: none"},
});

/// L = -clip(r, low, high) lp A, the clipped ratio held fixed: every token keeps a gradient, dL/dlp
/// = -clip(r) A. Source: MiniMax 2025 (M1), arXiv:2506.13585, eq. 4; there only the upper threshold
/// binds.
Status cispo(std::span<const ObjectiveItem> items, const LossSettings& settings,
             std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr auto kCispoSettings = with_policy_settings({
    {"clip_low_threshold", 0.8, 0, 1, "the ratio is clipped below it"},
    {"clip_high_threshold", 1.2, 1, 1e6, "the ratio is clipped above it"},
});

/// L = -(lp A - beta / 2 (log r)^2), dL/dlp = -(A - beta log r): a quadratic pull to the sampling
/// policy in place of a clip. Source: Richemond et al. 2024, arXiv:2405.19107, per token as Tinker
/// has it.
Status dro(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr auto kDroSettings = with_policy_settings({
    {"beta", 0.05, 0, 1e6, "of the quadratic term"},
});

/// L = -min(s A, clip(s, low, high) A) with the sequence's ratio s = exp(mean over its learned
/// tokens of log r): the datum is one action, so its tokens are clipped together. dL/dlp_j = -s A /
/// n summed over the tokens. Thresholds are far closer to 1 than a token's. Source: Zheng et al.
/// 2025, arXiv:2507.18071, eq. 5 to 7 and section 5.1 (3e-4, 4e-4).
Status gspo(std::span<const ObjectiveItem> items, const LossSettings& settings,
            std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr auto kGspoSettings = with_policy_settings({
    {"clip_low_threshold", 0.9997, 0, 1, "the sequence's ratio is clipped below it"},
    {"clip_high_threshold", 1.0004, 1, 1e6, "the sequence's ratio is clipped above it"},
});

/// L = -(4 / tau) sigmoid(tau (r - 1)) A, tau by the sign of A: a gate that closes smoothly where
/// PPO's clip is a step. dL/dlp = -4 p (1 - p) r A with p the sigmoid. Source: Gao et al. 2025,
/// arXiv:2511.20347, eq. 5 to 8.
Status sapo(std::span<const ObjectiveItem> items, const LossSettings& settings,
            std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr auto kSapoSettings = with_policy_settings({
    {"tau_positive", 1.0, 1e-6, 1e6, "steepness of the gate for advantages above 0"},
    {"tau_negative", 1.05, 1e-6, 1e6, "for the others"},
});

/// A critic's loss on the scalar head: weight * coef * (v - returns)^2 / 2; with clip c > 0 and the
/// input "old_values" the larger of that and the same of v clipped to old_values +- c. d/dv =
/// coef (v - returns), 0 where the clipped side is taken and clipped. Source: Schulman et al. 2017;
/// the clip is that of OpenAI's baselines.
Status value_loss(std::span<const ObjectiveItem> items, const LossSettings& settings,
                  std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

inline constexpr std::string_view kValueInputs[] = {"weights", "returns"};
inline constexpr std::string_view kValueOptionalInputs[] = {"old_values"};
inline constexpr LossSetting kValueSettings[] = {
    {"clip", 0, 0, 1e6, "largest step from \"old_values\"; 0: none"},
    {"coef", 1, 0, 1e6, "of the whole loss"},
};

}  // namespace mainspring

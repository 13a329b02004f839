// Preference losses: what the log-probabilities of a chosen and a rejected answer are worth.
//
// The one idea: a group holds a pair (role 1 chosen, role 2 rejected), and the pair's loss is a
// function of two numbers, one per answer: S = sum over learned tokens of weight * log-probability,
// less the same of the reference policy where the loss has one (the per-token input
// "ref_logprobs"). Weights are the mask; others than 1 weigh tokens in S. With L = sum of weights,
// "length normalised" means S / L. A group's loss stands at its first chosen datum; the normaliser
// is the number of pairs, not of tokens. One file per family; variants are losses by name.
#pragma once

#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/losses/objective.h"

namespace mainspring {

inline constexpr std::string_view kPreferenceInputs[] = {"weights"};
inline constexpr std::string_view kReferenceInputs[] = {"weights", "ref_logprobs"};

inline constexpr LossSetting kBetaSetting = {"beta", 0.1, 0, 1e6, "of the implicit reward"};
inline constexpr LossSetting kLengthSetting = {"length_normalised", 0, 0, 1,
                                               "1: log-ratios are divided by the answer's length"};
inline constexpr LossSetting kSftSetting = {
    "sft_coef", 0, 0, 1e6, "of the chosen answer's mean negative log-probability, added"};
inline constexpr LossSetting kSmoothingSetting = {"label_smoothing", 0.1, 0, 0.4999,
                                                  "share of pairs taken to be the wrong way round"};

// Direct preference optimisation. With h = beta (chosen's log-ratio - rejected's):
// Metrics of all: rewards/chosen, rewards/rejected (beta times the log-ratio), rewards/margins,
// rewards/accuracies, logps/chosen, logps/rejected, and sft_loss where the term is on.

/// -log sigmoid(h). Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7. SFT term: Pang et al.
/// 2024, arXiv:2404.19733.
Status dpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kDpoSettings[] = {kBetaSetting, kLengthSetting, kSftSetting};

/// (h / beta - 1 / (2 beta))^2. Source: Azar et al. 2023, arXiv:2310.12036, eq. 17; log-ratios
/// are divided by the length unless length_normalised = 0, as TRL does.
Status dpo_ipo(std::span<const ObjectiveItem> items, const LossSettings& settings,
               std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kIpoSettings[] = {
    kBetaSetting,
    {"length_normalised", 1, 0, 1, "1: log-ratios are divided by the answer's length"},
    kSftSetting};

/// max(0, 1 - h). Source: Zhao et al. 2023 (SLiC-HF), arXiv:2305.10425; Liu et al. 2023 (RSO),
/// arXiv:2309.06657.
Status dpo_hinge(std::span<const ObjectiveItem> items, const LossSettings& settings,
                 std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

/// With e = label_smoothing: (-(1 - e) log sigmoid(h) + e log sigmoid(-h)) / (1 - 2 e), unbiased
/// where a share e of the labels is flipped. Source: Chowdhury et al. 2024, arXiv:2403.00409.
Status dpo_robust(std::span<const ObjectiveItem> items, const LossSettings& settings,
                  std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

/// -(1 - e) log sigmoid(h) - e log sigmoid(-h). Source: Mitchell 2023, "A note on DPO with noisy
/// preferences".
Status dpo_conservative(std::span<const ObjectiveItem> items, const LossSettings& settings,
                        std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kSmoothedSettings[] = {kBetaSetting, kLengthSetting, kSftSetting,
                                                    kSmoothingSetting};

/// No pairs: a group holds chosen and rejected answers in any numbers, and at least one mismatched
/// datum. With S an answer's log-ratio and z0 = max(0, mean S of the mismatched), held fixed:
/// chosen 1 - sigmoid(beta (S - z0)), rejected 1 - sigmoid(beta (z0 - S)), each times its weight.
/// Normaliser: the chosen and rejected answers. Metrics: as dpo's rewards and logps, kl (z0).
/// Source: Ethayarajh et al. 2024, arXiv:2402.01306, eq. 8.
Status kto(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kKtoSettings[] = {
    kBetaSetting,
    {"desirable_weight", 1, 0, 1e6, "of chosen answers"},
    {"undesirable_weight", 1, 0, 1e6, "of rejected answers"}};

// Without a reference. With p the mean log-probability of an answer, S / L:

/// -p_chosen - beta log sigmoid(log odds(chosen) - log odds(rejected)), odds = e^p / (1 - e^p).
/// Metrics: rewards/* (beta p), logps/*, log_odds. Source: Hong et al. 2024, arXiv:2403.07691, eq.
/// 6 and 7.
Status orpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
            std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kOrpoSettings[] = {
    {"beta", 0.1, 0, 1e6, "of the odds ratio's term (the paper's lambda)"}};

/// -log sigmoid(beta (p_chosen - p_rejected) - gamma) + sft_coef * -p_chosen. Source: Meng et al.
/// 2024, arXiv:2405.14734, eq. 6.
Status simpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
             std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kSimpoSettings[] = {
    {"beta", 2, 0, 1e6, "of the rewards"},
    {"gamma", 1, 0, 1e6, "target margin of the rewards"},
    kSftSetting};

/// -log sigmoid(beta (S_chosen - S_rejected)) + sft_coef * -p_chosen. Source: Xu et al. 2024,
/// arXiv:2401.08417, eq. 5.
Status cpo(std::span<const ObjectiveItem> items, const LossSettings& settings,
           std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr LossSetting kCpoSettings[] = {
    kBetaSetting,
    {"sft_coef", 1, 0, 1e6, "of the chosen answer's mean negative log-probability, added"}};

/// Bradley-Terry on the scalar head's values v at each answer's last learned position:
/// -log sigmoid(v_chosen - v_rejected - m) + centring (v_chosen + v_rejected)^2, m the setting
/// margin plus, if it is there, the input "margin" at the chosen answer's last learned position.
/// Metrics: rewards/*. Source: Ouyang et al. 2022, arXiv:2203.02155, eq. 1; margin: Touvron et al.
/// 2023, arXiv:2307.09288, eq. 2; centring: Eisenstein et al. 2023, arXiv:2312.09244.
Status reward_pair(std::span<const ObjectiveItem> items, const LossSettings& settings,
                   std::span<ObjectiveGradient> gradients, LossMetrics& metrics);
inline constexpr std::string_view kRewardPairOptionalInputs[] = {"margin"};
inline constexpr LossSetting kRewardPairSettings[] = {
    {"margin", 0, 0, 1e6, "that the chosen answer's value should be ahead by"},
    {"centring", 0, 0, 1e6, "pulls a pair's values to mean 0"}};

}  // namespace mainspring

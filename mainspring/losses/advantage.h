// Advantages of whole answers from their rewards, and the choices around them, in f64.
//
// The one idea: what a reward is compared with (advantage), what a token of an answer weighs
// (normaliser), which groups teach nothing, and what a long answer costs are separate pure
// functions with a typed choice each; an algorithm's name is a row of such choices. Not for steps
// inside an answer or episode: returns.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

/// With r a reward, and mean and standard deviation s (unbiased, n - 1) over its group:
enum class AdvantageKind : uint8_t {
  kRaw,        // r: no baseline
  kGrpo,       // (r - mean) / (s + eps). Shao et al. 2024, arXiv:2402.03300
  kGrpoNoStd,  // r - mean; Dr. GRPO with LengthNormaliser::kConstant. Liu et al., arXiv:2503.20783
  kRloo,       // r - mean of the group's others. Ahmadian et al. 2024, arXiv:2402.14740
  kReinforcePlusPlus,          // (r - batch mean) / (batch s + eps). Hu 2025, arXiv:2501.03262
  kReinforcePlusPlusBaseline,  // r - group mean, then as above over the batch
};

/// "raw", "grpo", "grpo_no_std", "rloo", "reinforce_pp", "reinforce_pp_baseline".
std::span<const std::string_view> advantage_names();
/// Errors: invalid argument with the nearest name.
Result<AdvantageKind> parse_advantage(std::string_view name);

struct AdvantageOptions {
  AdvantageKind kind = AdvantageKind::kGrpo;
  double eps = 1e-6;  // added to the standard deviation
};

/// One advantage per reward; groups[i] is reward i's group, and the rewards are a whole batch. A
/// group (or batch) of one or without variance has s = 0. Errors: invalid argument if sizes differ,
/// for a reward that is not finite, and for rloo with a group of one, which leaves nothing out.
Result<std::vector<double>> group_advantages(const AdvantageOptions& options,
                                             std::span<const double> rewards,
                                             std::span<const int64_t> groups);

/// Whether a group's rewards differ: without that its advantages are 0 and it teaches nothing
/// (dynamic sampling resamples it). Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.2.
bool has_reward_variance(std::span<const double> rewards);

/// What is added to the reward of an answer of `length` tokens: 0 up to limit - margin, falling
/// linearly to -1 at limit, -1 beyond. Source: DAPO, eq. 13. Precondition: 0 < margin <= limit.
double overlong_penalty(int64_t length, int64_t limit, int64_t margin);

/// What a learned token weighs in the sum that a loss is.
enum class LengthNormaliser : uint8_t {
  kTokenSum,      // 1, and the step divides by its learned tokens: DAPO
  kSequenceMean,  // 1 / length, and the step divides by its answers: GRPO
  kConstant,      // 1 / limit, and the step divides by its answers: Dr. GRPO
};

/// "token_sum", "sequence_mean", "constant".
std::span<const std::string_view> normaliser_names();
/// Errors: invalid argument with the nearest name.
Result<LengthNormaliser> parse_normaliser(std::string_view name);

/// Precondition: length > 0, limit > 0.
double token_weight(LengthNormaliser kind, int64_t length, int64_t limit);

/// What the step divides by: a count over the whole batch, however it is split (rule 13).
double batch_normaliser(LengthNormaliser kind, int64_t num_answers, int64_t num_learned_tokens);

}  // namespace mainspring

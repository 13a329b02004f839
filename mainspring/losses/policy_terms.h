// What all policy losses share: ratios, off-policy correction, a KL term, and their metrics.
//
// The one idea: three policies meet in a sampled token: the current one (its log-probability is
// what is learned), the proximal one that the ratio is taken to, and the behaviour that sampled it.
// A loss family says only what a token's ratio is worth; where the ratio comes from and how the
// distance of proximal and behaviour policy is repaired are choices made here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/losses/objective.h"

namespace mainspring {

/// Which ratio a token has, and what its loss is multiplied by. rho = proximal / behaviour, a
/// constant; the proximal policy is the input "proximal_logprobs", else the current policy as it
/// is, held fixed.
enum class OffPolicyCorrection : uint8_t {
  kNone = 0,               // current / proximal; factor 1
  kBehaviourRatio = 1,     // current / behaviour; factor 1: the loss's own clip bounds it
  kTruncatedToken = 2,     // current / proximal; factor min(rho, cap)
  kMaskedToken = 3,        // current / proximal; factor rho, 0 outside [low, cap]
  kTruncatedSequence = 4,  // as 2, rho being the product over the datum's learned tokens
  kMaskedSequence = 5,     // as 3, likewise
};

/// "none", "behaviour_ratio", "truncated_token", ... in the order of the enum.
std::span<const std::string_view> correction_names();
/// Errors: invalid argument with the nearest name.
Result<OffPolicyCorrection> parse_correction(std::string_view name);

/// Estimators of KL(current || reference) from one sampled token, with d = log current - log
/// reference. Source: Schulman 2020, "Approximating KL divergence".
enum class KlEstimator : uint8_t {
  kK1 = 1,  // d: unbiased, may be negative; as a loss its expected derivative is 0
  kK2 = 2,  // d^2 / 2: biased; its derivative is an unbiased one of the KL
  kK3 = 3,  // e^-d - 1 + d: unbiased, never negative
};

std::span<const std::string_view> kl_estimator_names();  // "k1", "k2", "k3"
/// Errors: invalid argument with the nearest name.
Result<KlEstimator> parse_kl_estimator(std::string_view name);

struct KlEstimate {
  double value = 0.0;
  double by_logprob = 0.0;  // derivative by the current log-probability
};
KlEstimate estimate_kl(KlEstimator kind, double log_ratio);

/// One learned token.
struct PolicyToken {
  size_t position = 0;
  double weight = 0.0;
  double advantage = 0.0;
  double logprob = 0.0;
  double log_ratio = 0.0;
  double ratio = 1.0;
  double factor = 1.0;  // of the correction
};

/// The sum over one datum. Use: open, then add for each of tokens(), then close.
class PolicySum {
 public:
  /// Reads the inputs "advantages", "logprobs", and "proximal_logprobs", "ref_logprobs" if there
  /// are any. Errors: invalid argument for a fractional choice, limits in the wrong order, and a KL
  /// coefficient without "ref_logprobs".
  static Result<PolicySum> open(const ObjectiveItem& item, const LossSettings& settings,
                                ObjectiveGradient& gradient);

  std::span<const PolicyToken> tokens() const { return tokens_; }

  /// A token's loss before weight and factor, and its derivative by the token's log-probability.
  void add(const PolicyToken& token, double loss, double by_logprob, bool clipped);
  /// Adds to the derivative by every learned token's log-probability.
  void add_to_all(double by_logprob);

  /// The KL term and the metrics: ratio, ratio_hist/..., clip_fraction, approx_kl (k3 of the
  /// ratio), entropy (mean of -log p of the sampled tokens), behaviour_kl (k3 to the behaviour),
  /// kl_ref, correction, correction_cut (fraction truncated or masked).
  void close(LossMetrics& metrics);

 private:
  PolicySum(const ObjectiveItem& item, ObjectiveGradient& gradient)
      : item_(item), gradient_(gradient) {}
  void read_tokens(std::span<const float> advantages, std::span<const float> behaviour,
                   std::span<const float> proximal);
  void correct(const LossSettings& settings);
  void add_kl(LossMetrics& metrics);

  const ObjectiveItem& item_;
  ObjectiveGradient& gradient_;
  OffPolicyCorrection correction_ = OffPolicyCorrection::kBehaviourRatio;
  KlEstimator kl_estimator_ = KlEstimator::kK3;
  double kl_coef_ = 0.0;
  std::span<const float> ref_;
  std::vector<PolicyToken> tokens_;
  std::vector<double> log_rho_;    // of each token: proximal - behaviour
  std::vector<double> behaviour_;  // of each token: current - behaviour
  int64_t num_clipped_ = 0;
  int64_t num_cut_ = 0;  // tokens that the correction truncates or masks
};

inline constexpr std::string_view kPolicyInputs[] = {"weights", "logprobs", "advantages"};
inline constexpr std::string_view kPolicyOptionalInputs[] = {"proximal_logprobs", "ref_logprobs"};

/// What every policy loss can be set to.
inline constexpr LossSetting kPolicySettings[] = {
    {"correction", 1, 0, 5,
     "0 none, 1 ratio to the behaviour policy, 2 truncated or 3 masked importance sampling per "
     "token, 4 and 5 per sequence"},
    {"correction_low", 0, 0, 1, "rho below it is masked (3, 5)"},
    {"correction_cap", 2, 1, 1e6, "rho above it is truncated (2, 4) or masked (3, 5)"},
    {"kl_coef", 0, 0, 1e6, "of the KL term to \"ref_logprobs\""},
    {"kl_estimator", 3, 1, 3, "1, 2 or 3: k1, k2 or k3"},
};

/// A family's own settings and kPolicySettings.
template <size_t N>
constexpr std::array<LossSetting, N + std::size(kPolicySettings)> with_policy_settings(
    const LossSetting (&own)[N]) {
  std::array<LossSetting, N + std::size(kPolicySettings)> all;
  size_t i = 0;
  for (const LossSetting& setting : own) all[i++] = setting;
  for (const LossSetting& setting : kPolicySettings) all[i++] = setting;
  return all;
}

}  // namespace mainspring

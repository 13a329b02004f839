#include "mainspring/losses/policy_terms.h"

#include <algorithm>
#include <string>

#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"
#include "mainspring/losses/logistic.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

constexpr std::string_view kCorrections[] = {
    "none",         "behaviour_ratio",    "truncated_token",
    "masked_token", "truncated_sequence", "masked_sequence"};
constexpr std::string_view kKlEstimators[] = {"k1", "k2", "k3"};

Result<int> index_of(std::string_view name, std::span<const std::string_view> names,
                     const std::string& what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  return invalid_argument("no " + what + " named \"" + std::string(name) + "\", nearest is \"" +
                          nearest_name(std::string(name), known) + "\"");
}

// Where ratios lie: shares of the learned tokens.
constexpr double kRatioEdges[] = {0.5, 0.8, 0.95, 1.05, 1.25, 2.0};
constexpr std::string_view kRatioBuckets[] = {
    "ratio_hist/below_0.5", "ratio_hist/0.5_0.8", "ratio_hist/0.8_0.95", "ratio_hist/0.95_1.05",
    "ratio_hist/1.05_1.25", "ratio_hist/1.25_2",  "ratio_hist/above_2"};

// A share as a metric: the mean is hits / total.
LossMetric share(int64_t hits, size_t total) {
  return {.sum = static_cast<double>(hits),
          .count = static_cast<double>(total),
          .largest = hits > 0 ? 1.0 : 0.0};
}

std::span<const float> optional_input(const Datum& datum, const char* name) {
  const auto found = datum.inputs.find(name);
  if (found == datum.inputs.end()) return {};
  return found->second;
}

bool of_sequence(OffPolicyCorrection correction) {
  return correction == OffPolicyCorrection::kTruncatedSequence ||
         correction == OffPolicyCorrection::kMaskedSequence;
}

bool is_masked(OffPolicyCorrection correction) {
  return correction == OffPolicyCorrection::kMaskedToken ||
         correction == OffPolicyCorrection::kMaskedSequence;
}

}  // namespace

std::span<const std::string_view> correction_names() { return kCorrections; }
std::span<const std::string_view> kl_estimator_names() { return kKlEstimators; }

Result<OffPolicyCorrection> parse_correction(std::string_view name) {
  MS_ASSIGN_OR_RETURN(const int index, index_of(name, kCorrections, "off-policy correction"));
  return static_cast<OffPolicyCorrection>(index);
}

Result<KlEstimator> parse_kl_estimator(std::string_view name) {
  MS_ASSIGN_OR_RETURN(const int index, index_of(name, kKlEstimators, "KL estimator"));
  return static_cast<KlEstimator>(index + 1);
}

KlEstimate estimate_kl(KlEstimator kind, double log_ratio) {
  switch (kind) {
    case KlEstimator::kK1:
      return {log_ratio, 1.0};
    case KlEstimator::kK2:
      return {0.5 * log_ratio * log_ratio, log_ratio};
    case KlEstimator::kK3:
      break;
  }
  const double power = exact_expm1(-log_ratio);
  return {power + log_ratio, -power};
}

Result<PolicySum> PolicySum::open(const ObjectiveItem& item, const LossSettings& settings,
                                  ObjectiveGradient& gradient) {
  PolicySum sum(item, gradient);
  MS_ASSIGN_OR_RETURN(const int correction, whole_setting(settings, "correction"));
  MS_ASSIGN_OR_RETURN(const int estimator, whole_setting(settings, "kl_estimator"));
  sum.correction_ = static_cast<OffPolicyCorrection>(correction);
  sum.kl_estimator_ = static_cast<KlEstimator>(estimator);
  sum.kl_coef_ = setting(settings, "kl_coef");
  sum.ref_ = optional_input(*item.datum, "ref_logprobs");
  if (sum.kl_coef_ != 0.0 && sum.ref_.empty()) {
    return invalid_argument(
        "kl_coef is " + std::to_string(sum.kl_coef_) +
        ", so each datum needs the input \"ref_logprobs\": the reference's log-probabilities");
  }
  const std::span<const float> advantages = optional_input(*item.datum, "advantages");
  const std::span<const float> behaviour = optional_input(*item.datum, "logprobs");
  MS_CHECK(advantages.size() == item.logprobs.size() && behaviour.size() == item.logprobs.size(),
           "the engine checks a loss's inputs before it calls it");
  sum.read_tokens(advantages, behaviour, optional_input(*item.datum, "proximal_logprobs"));
  sum.correct(settings);
  return sum;
}

void PolicySum::read_tokens(std::span<const float> advantages, std::span<const float> behaviour,
                            std::span<const float> proximal) {
  const std::vector<float>& weights = item_.datum->weights;
  for (size_t t = 0; t < weights.size(); ++t) {
    if (weights[t] == 0.0f) continue;
    PolicyToken token{.position = t,
                      .weight = static_cast<double>(weights[t]),
                      .advantage = static_cast<double>(advantages[t]),
                      .logprob = static_cast<double>(item_.logprobs[t])};
    const double sampled = static_cast<double>(behaviour[t]);
    const double anchor = proximal.empty() ? token.logprob : static_cast<double>(proximal[t]);
    const bool to_behaviour = correction_ == OffPolicyCorrection::kBehaviourRatio;
    token.log_ratio = token.logprob - (to_behaviour ? sampled : anchor);
    token.ratio = exact_exp(token.log_ratio);
    tokens_.push_back(token);
    log_rho_.push_back(anchor - sampled);
    behaviour_.push_back(token.logprob - sampled);
  }
}

void PolicySum::correct(const LossSettings& settings) {
  if (correction_ == OffPolicyCorrection::kNone ||
      correction_ == OffPolicyCorrection::kBehaviourRatio) {
    return;
  }
  const double low = setting(settings, "correction_low");
  const double cap = setting(settings, "correction_cap");
  double of_all = 0.0;
  for (const double log_rho : log_rho_) of_all += log_rho;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const double rho = exact_exp(of_sequence(correction_) ? of_all : log_rho_[i]);
    const bool is_cut = rho > cap || (is_masked(correction_) && rho < low);
    if (is_cut) ++num_cut_;
    tokens_[i].factor = !is_cut ? rho : is_masked(correction_) ? 0.0 : cap;
  }
}

void PolicySum::add(const PolicyToken& token, double loss, double by_logprob, bool clipped) {
  if (clipped) ++num_clipped_;
  // A masked token's loss may be infinite; it counts for nothing all the same.
  if (token.factor == 0.0) return;
  const double scale = token.weight * token.factor;
  gradient_.loss += scale * loss;
  gradient_.by_logprob[token.position] += scale * by_logprob;
}

void PolicySum::add_to_all(double by_logprob) {
  for (const PolicyToken& token : tokens_) gradient_.by_logprob[token.position] += by_logprob;
}

void PolicySum::add_kl(LossMetrics& metrics) {
  if (ref_.empty()) return;
  LossMetric distance;
  for (const PolicyToken& token : tokens_) {
    const double log_ratio = token.logprob - static_cast<double>(ref_[token.position]);
    distance.add(estimate_kl(KlEstimator::kK3, log_ratio).value);
    if (kl_coef_ == 0.0) continue;
    const KlEstimate kl = estimate_kl(kl_estimator_, log_ratio);
    gradient_.loss += token.weight * kl_coef_ * kl.value;
    gradient_.by_logprob[token.position] += token.weight * kl_coef_ * kl.by_logprob;
  }
  metrics["kl_ref"].merge(distance);
}

void PolicySum::close(LossMetrics& metrics) {
  add_kl(metrics);
  if (tokens_.empty()) return;
  LossMetric ratio, approx_kl, entropy, behaviour_kl, factor;
  int64_t buckets[std::size(kRatioBuckets)] = {};
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const PolicyToken& token = tokens_[i];
    ratio.add(token.ratio);
    // k3 of KL(proximal || current): its sample's ratio is current / proximal.
    approx_kl.add(estimate_kl(KlEstimator::kK3, -token.log_ratio).value);
    behaviour_kl.add(estimate_kl(KlEstimator::kK3, -behaviour_[i]).value);
    entropy.add(-token.logprob);
    factor.add(token.factor);
    const auto edge = std::upper_bound(std::begin(kRatioEdges), std::end(kRatioEdges), token.ratio);
    ++buckets[edge - std::begin(kRatioEdges)];
  }
  metrics["ratio"].merge(ratio);
  metrics["approx_kl"].merge(approx_kl);
  metrics["behaviour_kl"].merge(behaviour_kl);
  metrics["entropy"].merge(entropy);
  metrics["clip_fraction"].merge(share(num_clipped_, tokens_.size()));
  for (size_t b = 0; b < std::size(kRatioBuckets); ++b) {
    metrics[std::string(kRatioBuckets[b])].merge(share(buckets[b], tokens_.size()));
  }
  if (correction_ == OffPolicyCorrection::kNone ||
      correction_ == OffPolicyCorrection::kBehaviourRatio) {
    return;
  }
  metrics["correction"].merge(factor);
  metrics["correction_cut"].merge(share(num_cut_, tokens_.size()));
}

}  // namespace mainspring

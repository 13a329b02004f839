#include "mainspring/losses/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

constexpr std::string_view kAdvantages[] = {"raw",  "grpo",         "grpo_no_std",
                                            "rloo", "reinforce_pp", "reinforce_pp_baseline"};
constexpr std::string_view kNormalisers[] = {"token_sum", "sequence_mean", "constant"};

Result<size_t> choice_of(std::string_view name, std::span<const std::string_view> names,
                         const std::string& what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  return invalid_argument("no " + what + " named \"" + std::string(name) + "\", nearest is \"" +
                          nearest_name(std::string(name), known) + "\"");
}

// Mean and unbiased standard deviation.
struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
  double sum = 0.0;
  double count = 0.0;
};

Spread spread_of(std::span<const double> values) {
  Spread spread;
  for (const double value : values) spread.sum += value;
  spread.count = static_cast<double>(values.size());
  if (values.empty()) return spread;
  spread.mean = spread.sum / spread.count;
  // Equal values have no spread, whatever the mean's rounding.
  if (values.size() < 2 || !has_reward_variance(values)) return spread;
  double squares = 0.0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (spread.count - 1.0));
  return spread;
}

double advantage_in_group(const AdvantageOptions& options, double reward, const Spread& group) {
  switch (options.kind) {
    case AdvantageKind::kRaw:
    case AdvantageKind::kReinforcePlusPlus:
      return reward;
    case AdvantageKind::kGrpo:
      if (group.deviation == 0.0) return 0.0;
      return (reward - group.mean) / (group.deviation + options.eps);
    case AdvantageKind::kGrpoNoStd:
    case AdvantageKind::kReinforcePlusPlusBaseline:
      return reward - group.mean;
    case AdvantageKind::kRloo:
      break;
  }
  return reward - (group.sum - reward) / (group.count - 1.0);
}

void normalise(std::vector<double>& values, double eps) {
  const Spread batch = spread_of(values);
  for (double& value : values) {
    value = batch.deviation == 0.0 ? 0.0 : (value - batch.mean) / (batch.deviation + eps);
  }
}

Status check_rewards(std::span<const double> rewards, std::span<const int64_t> groups) {
  if (rewards.size() != groups.size()) {
    return invalid_argument("groups: expected one per reward (" + std::to_string(rewards.size()) +
                            "), got " + std::to_string(groups.size()));
  }
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (std::isfinite(rewards[i])) continue;
    return invalid_argument("rewards[" + std::to_string(i) + "]: expected a finite number, got " +
                            std::to_string(rewards[i]));
  }
  return {};
}

}  // namespace

std::span<const std::string_view> advantage_names() { return kAdvantages; }
std::span<const std::string_view> normaliser_names() { return kNormalisers; }

Result<AdvantageKind> parse_advantage(std::string_view name) {
  MS_ASSIGN_OR_RETURN(const size_t index, choice_of(name, kAdvantages, "advantage"));
  return static_cast<AdvantageKind>(index);
}

Result<LengthNormaliser> parse_normaliser(std::string_view name) {
  MS_ASSIGN_OR_RETURN(const size_t index, choice_of(name, kNormalisers, "normaliser"));
  return static_cast<LengthNormaliser>(index);
}

Result<std::vector<double>> group_advantages(const AdvantageOptions& options,
                                             std::span<const double> rewards,
                                             std::span<const int64_t> groups) {
  MS_RETURN_IF_ERROR(check_rewards(rewards, groups));
  std::map<int64_t, std::vector<double>> by_group;
  for (size_t i = 0; i < rewards.size(); ++i) by_group[groups[i]].push_back(rewards[i]);
  std::map<int64_t, Spread> spreads;
  for (const auto& [group, members] : by_group) {
    if (options.kind == AdvantageKind::kRloo && members.size() < 2) {
      return invalid_argument("group " + std::to_string(group) +
                              ": rloo compares an answer with the group's others, and there is "
                              "only one");
    }
    Spread& spread = spreads[group] = spread_of(members);
    if (!has_reward_variance(members)) spread.mean = members[0];  // so that r - mean is 0 exactly
  }
  std::vector<double> advantages;
  for (size_t i = 0; i < rewards.size(); ++i) {
    advantages.push_back(advantage_in_group(options, rewards[i], spreads[groups[i]]));
  }
  if (options.kind == AdvantageKind::kReinforcePlusPlus ||
      options.kind == AdvantageKind::kReinforcePlusPlusBaseline) {
    normalise(advantages, options.eps);
  }
  return advantages;
}

bool has_reward_variance(std::span<const double> rewards) {
  return std::any_of(rewards.begin(), rewards.end(),
                     [&](double reward) { return reward != rewards[0]; });
}

double overlong_penalty(int64_t length, int64_t limit, int64_t margin) {
  MS_CHECK(margin > 0 && margin <= limit, "overlong shaping: 0 < margin <= limit");
  if (length <= limit - margin) return 0.0;
  if (length > limit) return -1.0;
  return static_cast<double>(limit - margin - length) / static_cast<double>(margin);
}

double token_weight(LengthNormaliser kind, int64_t length, int64_t limit) {
  MS_CHECK(length > 0 && limit > 0, "an answer has tokens and a limit");
  switch (kind) {
    case LengthNormaliser::kTokenSum:
      return 1.0;
    case LengthNormaliser::kSequenceMean:
      return 1.0 / static_cast<double>(length);
    case LengthNormaliser::kConstant:
      break;
  }
  return 1.0 / static_cast<double>(limit);
}

double batch_normaliser(LengthNormaliser kind, int64_t num_answers, int64_t num_learned_tokens) {
  return static_cast<double>(kind == LengthNormaliser::kTokenSum ? num_learned_tokens
                                                                 : num_answers);
}

}  // namespace mainspring

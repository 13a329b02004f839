#include "mainspring/losses/losses.h"

#include <algorithm>

#include "mainspring/base/nearest.h"
#include "mainspring/losses/distill.h"
#include "mainspring/losses/entropy.h"
#include "mainspring/losses/importance_sampling.h"
#include "mainspring/losses/policy_losses.h"
#include "mainspring/losses/preference_losses.h"
#include "mainspring/losses/soft_cross_entropy.h"

namespace mainspring {
namespace {

constexpr std::string_view kWeightsOnly[] = {"weights"};

constexpr std::string_view kWeightsAndZ[] = {"weights", "z_weights"};

constexpr LossInfo policy_row(std::string_view name, Objective objective,
                              std::span<const LossSetting> settings) {
  return {.name = name,
          .inputs = kPolicyInputs,
          .objective = objective,
          .scope = LossScope::kSequence,
          .settings = settings,
          .optional_inputs = kPolicyOptionalInputs};
}

constexpr LossInfo group_row(std::string_view name, std::span<const std::string_view> inputs,
                             Objective objective, std::span<const LossSetting> settings,
                             std::span<const std::string_view> optional_inputs = {}) {
  return {.name = name,
          .inputs = inputs,
          .objective = objective,
          .scope = LossScope::kGroup,
          .settings = settings,
          .optional_inputs = optional_inputs};
}

constexpr LossInfo kTable[] = {
    {"cross_entropy", kWeightsOnly, cross_entropy},
    {"cross_entropy_z", kWeightsAndZ, cross_entropy_z},
    {.name = "importance_sampling", .inputs = kPolicyInputs, .objective = importance_sampling},
    policy_row("ppo", ppo, kPpoSettings),
    policy_row("cispo", cispo, kCispoSettings),
    policy_row("dro", dro, kDroSettings),
    policy_row("gspo", gspo, kGspoSettings),
    policy_row("sapo", sapo, kSapoSettings),
    {.name = "value",
     .inputs = kValueInputs,
     .objective = value_loss,
     .scope = LossScope::kToken,
     .settings = kValueSettings,
     .optional_inputs = kValueOptionalInputs},
    group_row("dpo", kReferenceInputs, dpo, kDpoSettings),
    group_row("dpo_ipo", kReferenceInputs, dpo_ipo, kIpoSettings),
    group_row("dpo_hinge", kReferenceInputs, dpo_hinge, kDpoSettings),
    group_row("dpo_robust", kReferenceInputs, dpo_robust, kSmoothedSettings),
    group_row("dpo_conservative", kReferenceInputs, dpo_conservative, kSmoothedSettings),
    group_row("kto", kReferenceInputs, kto, kKtoSettings),
    group_row("orpo", kPreferenceInputs, orpo, kOrpoSettings),
    group_row("simpo", kPreferenceInputs, simpo, kSimpoSettings),
    group_row("cpo", kPreferenceInputs, cpo, kCpoSettings),
    group_row("reward_pair", kPreferenceInputs, reward_pair, kRewardPairSettings,
              kRewardPairOptionalInputs),
    {.name = "entropy", .inputs = kWeightsOnly, .objective = entropy, .reads_candidates = true},
    {.name = "distill",
     .inputs = kWeightsOnly,
     .objective = distill,
     .settings = kDistillSettings,
     .reads_candidates = true},
    {.name = "soft_cross_entropy",
     .inputs = kWeightsOnly,
     .objective = soft_cross_entropy,
     .reads_candidates = true},
};

}  // namespace

std::span<const LossInfo> loss_table() { return kTable; }

Result<const LossInfo*> find_loss(std::string_view name) {
  std::vector<std::string> known;
  for (const LossInfo& loss : kTable) {
    if (loss.name == name) return &loss;
    known.emplace_back(loss.name);
  }
  return invalid_argument("no loss named \"" + std::string(name) + "\", nearest is \"" +
                          nearest_name(std::string(name), known) + "\"");
}

Result<LossSettings> complete_settings(const LossInfo& loss, const LossSettings& given) {
  LossSettings settings;
  std::vector<std::string> known;
  for (const LossSetting& setting : loss.settings) {
    settings.emplace(setting.name, setting.fallback);
    known.emplace_back(setting.name);
  }
  for (const auto& [name, value] : given) {
    const auto info = std::find_if(loss.settings.begin(), loss.settings.end(),
                                   [&](const LossSetting& s) { return s.name == name; });
    if (info == loss.settings.end()) {
      return invalid_argument(
          "loss " + std::string(loss.name) + " has no setting \"" + name + "\"" +
          (known.empty() ? "" : ", nearest is \"" + nearest_name(name, known) + "\""));
    }
    if (!(value >= info->low && value <= info->high)) {
      return invalid_argument("loss " + std::string(loss.name) + ": " + name + ": expected " +
                              std::to_string(info->low) + " to " + std::to_string(info->high) +
                              ", got " + std::to_string(value));
    }
    settings[name] = value;
  }
  return settings;
}

}  // namespace mainspring

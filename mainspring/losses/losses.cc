#include "mainspring/losses/losses.h"

#include <algorithm>

#include "mainspring/base/nearest.h"
#include "mainspring/losses/importance_sampling.h"

namespace mainspring {
namespace {

constexpr std::string_view kWeightsOnly[] = {"weights"};

constexpr std::string_view kWeightsAndZ[] = {"weights", "z_weights"};

constexpr std::string_view kPolicyInputs[] = {"weights", "logprobs", "advantages"};

constexpr LossInfo kTable[] = {
    {"cross_entropy", kWeightsOnly, cross_entropy},
    {"cross_entropy_z", kWeightsAndZ, cross_entropy_z},
    {.name = "importance_sampling", .inputs = kPolicyInputs, .objective = importance_sampling},
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

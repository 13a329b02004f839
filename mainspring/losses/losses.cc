#include "mainspring/losses/losses.h"

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

constexpr std::string_view kWeightsOnly[] = {"weights"};

constexpr std::string_view kWeightsAndZ[] = {"weights", "z_weights"};

constexpr LossInfo kTable[] = {
    {"cross_entropy", kWeightsOnly, cross_entropy},
    {"cross_entropy_z", kWeightsAndZ, cross_entropy_z},
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

}  // namespace mainspring

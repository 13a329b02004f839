// A reward model's loss: the chosen answer's value above the rejected one's.
#include <string>

#include "mainspring/losses/logistic.h"
#include "mainspring/losses/preference_losses.h"
#include "mainspring/losses/preference_pair.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

// Where an answer's value is read.
Result<size_t> last_learned(const ObjectiveItem& item) {
  const Datum& datum = *item.datum;
  if (item.values.size() != datum.weights.size()) {
    return invalid_argument("the loss needs a model with a scalar head: there are no values");
  }
  for (size_t t = datum.weights.size(); t > 0; --t) {
    if (datum.weights[t - 1] != 0.0f) return t - 1;
  }
  return invalid_argument("group " + std::to_string(datum.group) + ": the datum of role " +
                          std::to_string(datum.role) + " has no position with a weight");
}

}  // namespace

Status reward_pair(std::span<const ObjectiveItem> items, const LossSettings& settings,
                   std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  MS_ASSIGN_OR_RETURN(const AnswerPair pair, pair_of(items));
  MS_ASSIGN_OR_RETURN(const size_t chosen_at, last_learned(items[pair.chosen]));
  MS_ASSIGN_OR_RETURN(const size_t rejected_at, last_learned(items[pair.rejected]));
  double margin = setting(settings, "margin");
  const auto& inputs = items[pair.chosen].datum->inputs;
  if (const auto own = inputs.find("margin"); own != inputs.end()) {
    margin += static_cast<double>(own->second[chosen_at]);
  }
  const double centring = setting(settings, "centring");
  const double chosen = static_cast<double>(items[pair.chosen].values[chosen_at]);
  const double rejected = static_cast<double>(items[pair.rejected].values[rejected_at]);
  const double ahead = chosen - rejected - margin;
  const double slope = -sigmoid(-ahead);
  const double both = chosen + rejected;
  gradients[pair.chosen].loss += -log_sigmoid(ahead) + centring * both * both;
  gradients[pair.chosen].by_value[chosen_at] += slope + 2.0 * centring * both;
  gradients[pair.rejected].by_value[rejected_at] += -slope + 2.0 * centring * both;
  add_reward_metrics(chosen, rejected, metrics);
  return {};
}

}  // namespace mainspring

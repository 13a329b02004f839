// Preference training as a client of the engine: what a batch of pairs needs before its pass.
//
// The one idea: a step on pairs is a step like any other with another loss call; all that is new is
// added to the datums here: the reference's log-probabilities, and kto's mismatched answers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/engine/engine.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

/// Losses that preference.loss may name.
std::vector<std::string> preference_loss_names();

/// Errors: those of complete_settings (losses/), with the recipe's key.
Result<LossCall> preference_call(const PreferenceRecipe& recipe);

/// Whether the loss compares with a reference policy.
bool needs_reference(const std::string& loss);

/// What a summed preference loss is divided by: pairs, or kto's judged answers.
double num_judged(const std::string& loss, const std::vector<Datum>& datums);

/// For kto: makes the batch one group and adds each chosen datum's prompt with the next one's
/// answer, as kMismatched. Errors: invalid argument for a batch of one pair.
Status add_mismatched(std::vector<Datum>& datums);

/// The base model's log-probabilities of a datum's targets, as its input "ref_logprobs": the base
/// under an adapter, or the weights that full training started from. Computed once per sequence and
/// kept, up to a bound: the next epoch finds them. Same bits either way.
class ReferenceLogprobs {
 public:
  explicit ReferenceLogprobs(int64_t max_bytes = int64_t{256} << 20) : max_bytes_(max_bytes) {}

  /// Errors: the engine's.
  Status add(Engine& engine, std::vector<Datum>& datums);

  int64_t num_kept() const { return static_cast<int64_t>(known_.size()); }

 private:
  using Sequence = std::vector<int32_t>;  // tokens and the last target
  static Sequence sequence_of(const Datum& datum);

  int64_t max_bytes_;
  int64_t bytes_ = 0;
  std::map<Sequence, std::vector<float>> known_;
};

}  // namespace mainspring

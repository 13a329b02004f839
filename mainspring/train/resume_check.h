// Resume check: may a run go on with this recipe?
//
// The one idea: a run is one recipe's work, so what decides what is trained (model, data, adapter,
// batch, seed) must be as it was; what steers it on (optimizer, length, cadence, samples) or
// changes no bit may change, and the change is written down.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/run/run_folder.h"

namespace mainspring {

struct RecipeChange {
  std::string key;
  std::string was;  // as JSON text
  std::string now;
};

/// Every key whose value differs, in the order of `now`. A key that one side lacks is not compared,
/// and neither are two paths of one model.
std::vector<RecipeChange> changes_between(const std::vector<RecipeValue>& was,
                                          const std::vector<RecipeValue>& now);

/// Errors: failed precondition names each change that makes another training of it. data.files and
/// data.weights may change here: the data knows its sources by their rows, and another mixture
/// counts from the next sample on (data/mixture.h).
Status check_changes(const std::vector<RecipeChange>& changes);

/// "optim.lr 0.0002 -> 0.05, train.steps 20 -> 40"; "" for none.
std::string changes_text(const std::vector<RecipeChange>& changes);

}  // namespace mainspring

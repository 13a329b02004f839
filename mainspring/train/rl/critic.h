// critic: advantages of each token from the values of a scalar head.
//
// The one idea: a sample's tokens, over all its branches in order, are the steps of an episode
// whose reward comes with the last one; GAE makes an advantage and a return of each, and the
// advantages are normalised over the whole step, so that splitting a batch changes none.
#pragma once

#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/train/rl/rl_batch.h"

namespace mainspring {

/// Fills the inputs "advantages", "returns" and "old_values" of every datum. `values`: per datum
/// and position, of the state in which the position's target was chosen. A sample that was cut at a
/// limit counts as ended. Sources: returns.h (losses/); advantages less their mean, over their
/// deviation, as in Schulman et al.'s published code.
void fill_gae(RlBatch& batch, const std::vector<RolloutGroup>& groups, const RlRecipe& rl,
              const std::vector<std::vector<float>>& values);

/// The critic's loss with its settings.
LossCall value_loss_call(const RlRecipe& rl);

}  // namespace mainspring

// rl_batch: a step's rollouts as datums with advantages and one normaliser.
//
// The one idea: everything that couples samples (baselines, deviations, counts) is computed here
// over the whole step and carried in the datums, so that how the engine cuts them into passes
// changes no gradient. Only sampled tokens are learned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/losses/losses.h"
#include "mainspring/train/recipe_rl.h"
#include "mainspring/train/rl/trajectory.h"

namespace mainspring {

/// A number per group and sample.
using PerSample = std::vector<std::vector<double>>;

struct RlBatch {
  std::vector<Datum> datums;
  struct Origin {
    size_t group = 0;
    size_t sample = 0;
  };
  std::vector<Origin> origins;  // per datum
  double normaliser = 1.0;      // of the summed loss: a count over the whole step
  PerSample advantages;         // 0 for a sample without a reward
};

/// Which reward a sample's advantage is computed from: that of its environment, less the penalty
/// for replies near their limit.
double shaped_reward(const Trajectory& trajectory, const RlRecipe& rl);

/// True if every sample that has a reward has the same one.
bool has_no_variance(const RolloutGroup& group, const RlRecipe& rl);

/// `groups` of step `step` (from 0) as a batch. A sample whose environment failed has no reward, is
/// not learned and is in no baseline. Each datum: inputs "logprobs" and "advantages", weights
/// as rl.normaliser asks (times the advantage for "policy_gradient"), `group` its place,
/// `sample_index` unique in the run. With rl.merge_equal, equal samples of a group are one datum
/// whose weights are their sum: the same gradient for less work. `penalties` are
/// taken from the rewards before baselines; empty: none. Errors: invalid argument for a reward that
/// is not finite.
Result<RlBatch> make_rl_batch(const std::vector<RolloutGroup>& groups, const RlRecipe& rl,
                              int64_t step, const PerSample& penalties = {});

/// rl.kl_weight times the KL of each sample's tokens from the model before training, whose
/// log-probabilities of the batch's datums are `reference`. Precondition: rl.kl is an estimator.
PerSample kl_penalties(const std::vector<RolloutGroup>& groups, const RlBatch& batch,
                       const RlRecipe& rl, const std::vector<std::vector<float>>& reference);

/// The loss that a recipe asks for, with its settings.
LossCall rl_loss_call(const RlRecipe& rl);

}  // namespace mainspring

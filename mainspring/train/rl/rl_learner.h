// RlLearner: a step's rollouts to an update of the weights.
//
// The one idea: what it does is a function of the weights, the rollouts and the step, so a run and
// its replay share it. It also measures the promise that reinforcement learning rests on: the
// trainer's log-probabilities of the sampled tokens are the sampler's, bit for bit.
#pragma once

#include <vector>

#include "mainspring/engine/engine.h"
#include "mainspring/train/recipe.h"
#include "mainspring/train/rl/rl_batch.h"
#include "mainspring/train/setup.h"

namespace mainspring {

struct RlWork {
  RlBatch batch;
  ForwardBackwardResult result;  // of nothing if there is nothing to learn
  OptimStepResult update{.grad_norm = 0.0, .applied = false};
  /// Largest |trainer's - sampler's| log-probability of a token that was learned.
  double mismatch = 0.0;
  double kl_reference = 0.0;  // mean over learned tokens of k3 to the model before training
  bool is_empty() const { return batch.datums.empty(); }
};

class RlLearner {
 public:
  /// Both outlive it.
  RlLearner(const Recipe& recipe, TrainSetup& setup) : recipe_(recipe), setup_(setup) {}

  /// Advantages, reference and gradient of step `step` (from 0). Adds to the engine's gradient.
  /// Errors: the engine's.
  Result<RlWork> pass(const std::vector<RolloutGroup>& groups, int64_t step);

  /// The update. Nothing to learn, or a loss that is not finite, updates nothing.
  Status update(RlWork& work, int64_t step);

  /// The further updates of rl.updates, on the same batch: adds their metrics to `work`, whose
  /// loss and gradient norm stay those of the first. A gradient that is not finite ends them.
  Status update_again(RlWork& work, int64_t step);

 private:
  Status run(RlWork& work);
  Result<std::vector<std::vector<float>>> reference_logprobs(const std::vector<Datum>& datums);

  const Recipe& recipe_;
  TrainSetup& setup_;
};

}  // namespace mainspring

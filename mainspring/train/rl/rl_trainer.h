// rl_trainer: reinforcement learning as a client of engine, sampler and environment.
//
// The one idea: a step samples groups of episodes from the weights as they are, turns rewards into
// advantages, and takes one update; sampler and trainer share one set of weights and one
// arithmetic, so the step is on-policy to the last bit. All randomness is keyed by (seed, step,
// task), so a killed run resumes with the same bits.
#pragma once

#include <string>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/train/recipe.h"
#include "mainspring/train/trainer.h"

namespace mainspring {

struct RlResult {
  int64_t steps_done = 0;
  bool stopped = false;         // by options.should_stop
  double first_reward = 0.0;    // mean of the first step of this call; NaN without one
  double last_reward = 0.0;     // of the last one
  double first_accuracy = 0.0;  // solved tasks of the first greedy evaluation; NaN without one
  double last_accuracy = 0.0;
  double largest_mismatch = 0.0;  // over all steps of this call
  std::string wait_table;         // who waits for what
  std::string newest_checkpoint;
  std::string report;  // path of report.html
};

/// Runs a recipe of kind "rl" to its end. Errors: before any work, what the recipe's parts refuse
/// (model, environment and its settings, loss, a vocabulary that the model lacks); while it runs,
/// those of sampler and engine; failed precondition after train.max_bad_steps non-finite steps in a
/// row; data loss if a resumed step's loss differs from the saved one.
Result<RlResult> run_rl(const Recipe& recipe, Executor& executor, const TrainOptions& options);

}  // namespace mainspring

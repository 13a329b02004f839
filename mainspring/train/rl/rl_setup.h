// What a run of kind "rl" is made of, set up once: model, engine, environment, sampler.
#pragma once

#include <memory>
#include <string>

#include "mainspring/env/environment.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/train/rl/rollouts.h"
#include "mainspring/train/setup.h"

namespace mainspring {

struct RlSetup {
  TrainSetup train;  // without data
  std::unique_ptr<Environment> environment;
  ParameterSet sampler_base;  // what the sampler's model points to
  std::unique_ptr<Sampler> sampler;
  RolloutLaw law;           // of training samples
  std::string memory_plan;  // lines for the terminal
};

/// Errors: those of every part, each with the recipe's key where one is to blame. Call it in place:
/// the sampler points into `setup`, which must not move.
Status set_up_rl(const Recipe& recipe, Executor& executor, RlSetup& setup);

/// The same without a sampler, for a replay.
Status set_up_rl_learner(const Recipe& recipe, Executor& executor, RlSetup& setup);

/// Tells the sampler of an update.
Status publish_weights(RlSetup& setup, int64_t step);

}  // namespace mainspring

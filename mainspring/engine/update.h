// Update: the optimizer of one Trainable: who moves which parameter, states, programs.
//
// The one idea: the plan decides states and graph once; a step only fills scalars and runs. Not for
// the mathematics: that is optim/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/engine/engine.h"
#include "mainspring/exec/executor.h"
#include "mainspring/optim/param_groups.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring {

struct Trainable;  // engine/trainable.h

struct Update {
  /// The scalars of one group and optimizer: f32(8).
  struct Scalars {
    ParamPlan part;
    std::shared_ptr<Buffer> buffer;
  };

  OptimizerPlan plan;
  std::vector<OptimizedParam> params;      // in name order, as rule 15 asks; empty: not planned yet
  ParameterSet states;                     // "<prefix>/<parameter>"
  std::map<std::string, Scalars> scalars;  // by input name
  std::shared_ptr<Buffer> step;            // i32(1), if the masters are bf16
  std::unique_ptr<Executable> norm_program;
  std::unique_ptr<Executable> update_program;
};

/// Gives `t` a plan with fresh, zero states and sets its step to 0. Errors: those of assign_params.
Status plan_update(Executor& executor, Trainable& t, const OptimizerPlan& plan);

/// The AdamW plan if there is none yet, and the programs of the gradient norm and the update.
Status prepare_update(Executor& executor, Trainable& t);

/// Moves every parameter by its accumulated gradient times `grad_scale`; t.step is the step's
/// number, from 1. Precondition: prepare_update.
void run_update(Trainable& t, const AdamwOptions& options, float grad_scale);

}  // namespace mainspring

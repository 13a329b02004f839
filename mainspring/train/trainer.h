// Trainer: supervised fine-tuning as a client of the engine.
//
// The one idea: a step is next() datums -> forward_backward -> optim_step; everything else
// (evaluation, samples, checkpoints, metrics, signals) happens between steps and changes no bit of
// them. What a step needs to continue is in the checkpoint, so a killed run resumes with the same
// bits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/exec/executor.h"
#include "mainspring/train/flops.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

struct TrainOptions {
  std::string run_dir;
  bool resume = false;
  bool dry_run = false;  // checks everything, prints the plan, trains nothing
  /// Asked between steps (a signal came): the step in progress ends, is saved, and the run returns.
  std::function<bool()> should_stop;
  /// Before a step's pass; tests spoil a batch, or its rate by a factor, with it.
  std::function<void(std::vector<Datum>& datums, double& rate_factor)> before_step;
  std::map<std::string, std::string> facts;            // for run.json: isa, compiler, ...
  std::function<std::string(int64_t step)> line_head;  // stands before each step's progress line
  /// Lines for the person at the terminal.
  std::function<void(const std::string&)> say;
};

struct TrainResult {
  int64_t steps_done = 0;
  int64_t num_eval_rows = 0;   // held-out rows; known after a dry run too
  bool stopped = false;        // by options.should_stop
  double first_eval_loss = 0;  // of the whole run, per learned token; NaN without held-out rows
  double last_eval_loss = 0;
  int64_t num_evals = 0;  // of this call, and the first one if an earlier call did it
  std::string newest_checkpoint;
  std::string report;  // path of report.html
};

/// Runs a recipe to its end. A step whose loss is a spike (spike_guard.h) is dealt with as
/// train.spikes says; failed precondition after max_spikes of them. Errors: everything that
/// load_model, DataLoader and RunFolder refuse, before any work; failed precondition after
/// max_bad_steps non-finite steps in a row, with the cause; data loss if a resumed step's loss
/// differs from the saved one.
Result<TrainResult> run_training(const Recipe& recipe, Executor& executor,
                                 const TrainOptions& options);

struct ProfileOptions {
  int64_t steps = 3;
  int64_t warmup_steps = 1;      // before these: plans are made, weights packed, memory touched
  Timeline* timeline = nullptr;  // gets the steps; null: they run as always
};

/// Sums over the profiled steps, the warm-up left out.
struct ProfiledRun {
  std::string description;  // model, executor, batch: one line
  FlopsModel flops;
  int64_t num_tokens = 0;   // padding rows left out
  int64_t num_learned = 0;  // of these
  int64_t num_micro_batches = 0;
  double model_flops = 0;  // as FlopsModel has them
  std::vector<double> loss_sums;
  double cpu_s = 0;    // CPU time of the process; threads that wait for work spin, and count
  std::string digest;  // of the state after the last step: that of a run without a timeline
};

/// The first steps of a recipe as run_training takes them, without a run folder: no evaluation, no
/// checkpoint. Errors: as run_training; failed precondition if a step is not finite.
Result<ProfiledRun> run_profile(const Recipe& recipe, Executor& executor,
                                const ProfileOptions& options);

}  // namespace mainspring

// Sweep: trains the points of a grid, one after the other, each into a run folder of its own.
//
// The one idea: a point is trained by run_training as `mainspring train` would, so its bits are
// those of that command; the sweep only adds which points have ended (outcomes.jsonl) and shows
// them together. A killed sweep goes on: ended points stay, a begun one resumes from its
// checkpoint.
//
//   sweep.json      axes and points            results.json, results.csv   the table
//   outcomes.jsonl  a line per ended point     sweep.html                  the page
//   points/NAME/    run folders
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/train/sweep_grid.h"

namespace mainspring {

struct SweepOptions {
  std::string dir;
  bool resume = false;
  std::vector<size_t> chosen;  // points to train, in this order
  /// A fresh one for each point, as a run of its own has.
  std::function<Result<std::unique_ptr<Executor>>()> make_executor;
  /// Asked between steps: the step in progress ends, is saved, and the sweep returns.
  std::function<bool()> should_stop;
  std::function<void(const std::string&)> say;  // lines for the person at the terminal
};

struct SweepResult {
  SweepRecord record;
  bool stopped = false;    // by options.should_stop
  int64_t num_failed = 0;  // of all points, those whose training failed (it diverged) included
  int64_t num_to_retry =
      0;  // of these, those that the world refused (disk, memory): resume tries again
};

/// Checks every chosen point as a dry run would, then trains them. A point that fails is recorded
/// and the next one begins. Errors: before any work, all that run_training refuses, with the
/// point's name; already exists or not found as `resume` asks; failed precondition if a point in
/// the folder was made by another recipe, if there are no held-out rows for the metric, or if
/// another process sweeps there; later only what keeps the sweep's own files from being written.
Result<SweepResult> run_sweep(const SweepPlan& plan, const SweepOptions& options);

/// Fills in how the points in `dir` stand, for a list of them. A folder that is not there leaves
/// them waiting.
Status read_sweep_states(const std::string& dir, SweepRecord& record);

}  // namespace mainspring

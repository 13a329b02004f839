// run_upkeep: what every kind of run does with its folder, whatever it trains.
//
// The one idea: which checkpoint a run goes on from, which recipe it may go on with, what is
// written at its start and after a save do not depend on the algorithm, so its trainers share them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/ckpt/writer.h"
#include "mainspring/exec/executor.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/recipe.h"
#include "mainspring/train/resume_check.h"

namespace mainspring {

/// What changed in the recipe since the run in `run_dir` was last started. Errors: those of
/// check_changes; without a checkpoint none, as nothing was trained that another recipe could
/// spoil.
Result<std::vector<RecipeChange>> compare_with_run(const std::string& run_dir,
                                                   const Recipe& recipe);

/// The newest whole checkpoint; those that are damaged are said and written down. None: said, too.
/// Errors: failed precondition for another seed, and for more steps done than the recipe asks for.
Result<std::optional<Checkpoint>> checkpoint_to_resume(
    RunFolder& folder, const Recipe& recipe, const std::function<void(const std::string&)>& say);

/// What run.json says of any run; the caller adds its own facts.
RunInfo make_run_info(const Recipe& recipe, std::map<std::string, std::string> facts,
                      const LoadedModel& model, const Executor& executor);

/// The event of a start, or of a resume with what changed, which is said as well.
Status note_start(RunFolder& folder, int64_t step, bool resumed,
                  const std::vector<RecipeChange>& changes,
                  const std::function<void(const std::string&)>& say);

/// Writes down what became of saves, and the newest good one to `newest`. A failed save is shown;
/// training goes on with the older checkpoints intact.
Status report_saves_of(CheckpointWriter& writer, RunFolder& folder, Progress& progress,
                       std::string& newest);

}  // namespace mainspring

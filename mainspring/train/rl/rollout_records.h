// Rollout records: a step's rollouts in the run folder, to text and back.
//
// The one idea: rollouts/step-000012.jsonl has one line per sample with everything that its datums
// are made of, f32 values exactly, so that a step can be looked at and its batch rebuilt bit for
// bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/train/recipe_rl.h"
#include "mainspring/train/rl/trajectory.h"

namespace mainspring {

/// "RUN/rollouts/step-000012.jsonl".
std::string rollouts_path(const std::string& run_dir, int64_t step);

/// Writes the file of `step` (the first is 1), whole or not at all. Errors: the system's.
Status write_rollouts(const std::string& run_dir, int64_t step,
                      const std::vector<RolloutGroup>& groups,
                      const std::vector<std::vector<double>>& advantages);

/// What a step's file says.
struct RecordedRollouts {
  std::vector<RolloutGroup> groups;
  std::vector<std::vector<double>> advantages;
};

/// Errors: not found naming the steps that are there; invalid argument with file, line and field.
Result<RecordedRollouts> read_rollouts(const std::string& run_dir, int64_t step);

/// Errors: data loss naming the file if groups or samples that every step of the recipe has are
/// missing, as after a line was lost.
Status check_complete(const RecordedRollouts& rollouts, const RlRecipe& rl,
                      const std::string& path);

/// Steps whose rollouts are in the folder, ascending.
std::vector<int64_t> recorded_steps(const std::string& run_dir);

/// Removes the files of steps after `step` (a resumed run makes them again), and all but the newest
/// `keep` (0: keeps all). Errors: the system's.
Status prune_rollouts(const std::string& run_dir, int64_t last_step, int64_t keep);

/// The same before a run goes on: what a killed writer left goes too.
Status sweep_rollouts(const std::string& run_dir, int64_t last_step, int64_t keep);

}  // namespace mainspring

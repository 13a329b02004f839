// Replay: a recorded step again, from the newest checkpoint before it.
//
// The one idea: weights and rollouts decide a step, and both are in the run folder; so the batch is
// rebuilt from the rollouts, the steps between checkpoint and target are taken again, and the
// gradient norm must be the recorded one, bit for bit. Nothing in the folder is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"

namespace mainspring {

struct ReplayResult {
  int64_t step = 0;
  int64_t from_step = 0;   // of the checkpoint; 0: the weights before training
  std::string checkpoint;  // its path; empty for step 0
  double recorded_grad_norm = 0.0;
  double grad_norm = 0.0;
  double loss = 0.0;
  double mismatch = 0.0;  // of the replayed step
  int64_t num_datums = 0;
  bool is_equal() const { return grad_norm == recorded_grad_norm; }
};

/// `say` gets a line per replayed step. Errors: not found without rollouts or metrics of a step
/// that is needed, and what set-up and checkpoints refuse.
Result<ReplayResult> replay_rl_step(const std::string& run_dir, int64_t step, Executor& executor,
                                    const std::function<void(const std::string&)>& say);

}  // namespace mainspring

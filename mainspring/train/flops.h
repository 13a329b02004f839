// FLOPs of a training step and the peak they are compared with.
#pragma once

#include <string>

#include "mainspring/exec/executor.h"
#include "mainspring/models/config.h"

namespace mainspring {

/// Model FLOPs per token of forward and backward, by a stated formula.
struct FlopsModel {
  double per_token = 0.0;
  double peak = 1.0;  // FLOP/s measured on this machine with the executor's threads
  std::string formula;

  /// Full: 6 N_linear; LoRA: 4 N_linear (no weight gradient of the base). N_linear counts the
  /// weights of linears and head, not the embedding's look-up; attention is left out.
  static FlopsModel of(const ModelConfig& config, bool full, Executor& executor);
};

}  // namespace mainspring

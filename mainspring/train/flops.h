// Model FLOPs of a training step and the peak they are compared with: the one place of MFU.
//
// The one idea: what the mathematics of a step asks for, not what a program happens to do:
// recomputation, padding rows and work that is left undone do not enter, so MFU can be compared
// between programs. Source of the measure: Chowdhery et al. 2022, arXiv:2204.02311, appendix B.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/exec/executor.h"
#include "mainspring/models/config.h"

namespace mainspring {

/// What of a model is trained.
struct TrainedPart {
  bool full = false;
  int64_t rank = 0;                  // of an adapter; 0: its own products are left out
  std::vector<std::string> targets;  // suffixes; empty: all linears
};

/// Model FLOPs of forward and backward, a multiply-add counted as two:
///   full: 6 N tokens + 6 v d learned + 12 h c pairs
///   LoRA: 4 N tokens + 4 v d learned + 12 h c pairs + 6 N_adapter tokens
/// N: weights of the linears, without head and embedding (a look-up costs none). learned: tokens
/// whose loss counts, the only ones that reach the head. pairs: of a query and a key it sees,
/// summed over sequences and layers: t (t + 1) / 2 for t tokens, less where a window ends. LoRA
/// needs no weight gradient of the base; attention's backward pass is twice its forward pass.
struct FlopsModel {
  double linear_per_token = 0.0;    // adapters included
  double head_per_token = 0.0;      // a learned one
  double attention_per_pair = 0.0;  // of one layer
  std::vector<int64_t> windows;     // by layer; 0: every earlier key is seen
  double peak = 1.0;                // FLOP/s measured on this machine with the executor's threads
  std::string formula;

  /// Errors: invalid argument for an unknown target.
  static Result<FlopsModel> of(const ModelConfig& config, const TrainedPart& part,
                               Executor& executor);

  /// A learned token without its attention.
  double per_token() const { return linear_per_token + head_per_token; }

  /// FLOPs of a step on these sequences.
  double of_step(std::span<const Datum> datums) const;
};

/// Model FLOPs utilisation: flops / seconds / peak, a fraction; `peak` in FLOP/s, measured or the
/// maker's.
double mfu(double flops, double seconds, double peak);

}  // namespace mainspring

// EngineCall: one forward or forward_backward: its datums, the passes they go through, what comes
// of them.
//
// The one idea: datums go through micro-batches in their order whatever the loss, so how they are
// cut changes no bit; an objective is evaluated on the host between the log-probabilities and the
// gradient. Not for what a graph computes: that is engine/programs.h.
#pragma once

#include <span>
#include <vector>

#include "mainspring/batch/packer.h"
#include "mainspring/engine/engine.h"
#include "mainspring/engine/objective_groups.h"
#include "mainspring/engine/programs.h"
#include "mainspring/losses/losses.h"

namespace mainspring {

class EngineCall {
 public:
  /// What a call runs with; all outlives it.
  struct Place {
    Executor& executor;
    Programs& programs;
    const EngineOptions& options;
    int64_t vocabulary;
  };

  /// `key`: the models, one per slot, and whether there are gradients; its loss is chosen here.
  /// `settings` are complete.
  EngineCall(const Place& place, Program::Key key, const LossInfo& loss, LossSettings settings)
      : place_(place),
        key_(std::move(key)),
        loss_(loss),
        settings_(std::move(settings)),
        results_(key_.models.size()) {}

  /// Adds the datums of the model in `slot`; once per slot, in order. Errors: those of
  /// validate_datum.
  Status add(size_t slot, std::span<const Datum> datums);

  /// Runs everything. The result is per model. Errors: before any work, those of the objective;
  /// resource exhausted.
  Result<std::vector<ForwardBackwardResult>> run();

 private:
  Status run_objective();
  Status run_leaves();
  Status run_micro_batches(const Program::Key& key, size_t first, size_t end);
  Status run_micro_batch(const Program::Key& key, size_t first, size_t count);
  Status check_objective();
  Status evaluate(const std::vector<size_t>& group);
  std::vector<float> pick_derivatives(const Batch& batch, size_t first) const;
  ForwardBackwardResult& result_of(size_t item) {
    return results_[static_cast<size_t>(items_[item].slot)];
  }
  std::vector<float>& logprobs_of(size_t item) {
    return result_of(item).logprobs[index_in_result_[item]];
  }

  Place place_;
  Program::Key key_;
  const LossInfo& loss_;
  LossSettings settings_;
  std::vector<PackItem> items_;
  std::vector<size_t> index_in_result_;         // per item
  std::vector<double> item_loss_;               // per item
  std::vector<std::vector<float>> by_logprob_;  // per item, of an objective with gradients
  std::vector<ForwardBackwardResult> results_;
};

}  // namespace mainspring

// EngineCall: one forward or forward_backward: its datums, the passes they go through, what comes
// of them.
//
// The one idea: datums go through micro-batches in their order whatever the loss, so how they are
// cut changes no bit. An objective is evaluated on the host in the middle of a micro-batch's pass,
// between the log-probabilities and the gradient that needs them; where a group of datums does not
// fit one micro-batch, a first pass makes its log-probabilities and a second one the gradient. Not
// for what a graph computes: that is engine/programs.h.
#pragma once

#include <span>
#include <vector>

#include "mainspring/batch/packer.h"
#include "mainspring/engine/engine.h"
#include "mainspring/engine/programs.h"
#include "mainspring/engine/trainable.h"
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
  /// Items [begin, end).
  struct Range {
    size_t begin;
    size_t end;
  };
  enum class Step {
    kForward,   // log-probabilities, or a traced loss
    kWhole,     // with gradients; an objective is evaluated in the middle
    kGradient,  // with gradients of an objective that is evaluated
  };

  void begin_gradients();
  Status check_objective();
  Range unit_at(size_t begin) const;
  int64_t rows_of(Range range) const;
  bool leaf_begins_in(Range range) const;
  Status run_units();
  Status run_together(Range range);
  Status run_twice(Range range);
  Status run_cut(Range range, Step step);
  Status run_micro_batch(Range range, Step step);
  Status count_in_leaves(Range range);
  void read_outputs(const Batch& batch, size_t first, const Program& program);
  std::vector<float> logprob_derivatives(const Batch& batch, size_t first, size_t stride) const;
  void write_derivatives(const Batch& batch, size_t first, Program& program) const;
  Status evaluate_until(size_t end);
  Status evaluate(const std::vector<size_t>& group, LossMetrics& metrics);
  void keep_gradient(size_t item, const ObjectiveGradient& gradient);

  bool is_objective() const { return loss_.objective != nullptr; }
  ForwardBackwardResult& result_of(size_t item) {
    return results_[static_cast<size_t>(items_[item].slot)];
  }
  std::vector<float>& logprobs_of(size_t item) {
    return result_of(item).logprobs[index_in_result_[item]];
  }
  bool has_values(size_t slot) const {
    return key_.models[slot] != nullptr && key_.models[slot]->has_value_head();
  }
  /// Of an item whose model has them.
  std::vector<float>& values_of(size_t item) {
    return result_of(item).values[index_in_result_[item]];
  }
  /// Of an objective that reads them.
  std::vector<float>& candidates_of(size_t item) {
    return result_of(item).candidate_logprobs[index_in_result_[item]];
  }

  Place place_;
  Program::Key key_;
  const LossInfo& loss_;
  LossSettings settings_;
  std::vector<ForwardBackwardResult> results_;
  // Per item.
  std::vector<PackItem> items_;
  std::vector<size_t> index_in_result_;
  std::vector<double> item_loss_;
  std::vector<bool> begins_leaf_;
  // Of an objective.
  std::vector<std::vector<size_t>> groups_;     // in the order of their first items
  size_t next_group_ = 0;                       // the first that is not evaluated
  std::vector<size_t> group_end_;               // per item: one behind the last of its group
  std::vector<std::vector<float>> by_logprob_;  // per item
  std::vector<std::vector<float>> by_value_;    // per item; empty if its model has no values
  std::vector<std::vector<float>> by_candidate_;
};

}  // namespace mainspring

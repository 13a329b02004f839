// StepTimer: puts the steps of one plan on a timeline, with what each computes and moves.
//
// The one idea: every executor runs the nodes of a graph in order, so labels (op, phase, layer
// path) and costs (ir/run_cost.h) are the graph's, and an executor only says when a step begins.
// What the timer itself takes before a run (costs of that run's rows) is a span of its own, so that
// it hides in nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "mainspring/ir/graph.h"
#include "mainspring/ir/row_table.h"
#include "mainspring/obs/timeline.h"

namespace mainspring {

class StepTimer {
 public:
  /// `graph` outlives the timer; its steps are the nodes that are no sources, in order.
  explicit StepTimer(const Graph& graph) : graph_(graph) {}

  /// Opens the run and, in it, the span of what precedes the first step (derived layouts).
  void begin_run(Timeline& timeline, const RowTable& table);
  void begin_step(size_t step) { timeline_->next(labels_[step], costs_[step]); }
  void end_run();

  /// Picks whose logits a step keeps or finds kept (ir/run_cost.h), by step; empty: none.
  void set_kept_picks(std::vector<int64_t> picks) { kept_picks_ = std::move(picks); }

 private:
  void make_labels();

  const Graph& graph_;
  Timeline* timeline_ = nullptr;
  std::vector<Timeline::LabelId> labels_;  // by step
  std::vector<SpanCost> costs_;            // by step
  std::vector<int64_t> kept_picks_;        // by step
};

}  // namespace mainspring

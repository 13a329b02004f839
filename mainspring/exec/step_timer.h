// StepTimer: puts the steps of one plan on a timeline, with what each computes and moves.
//
// The one idea: every executor runs the nodes of a graph in order, so labels (op, phase, layer
// path) and costs (ir/run_cost.h) are the graph's, and an executor only says when a step begins.
// What the timer itself takes before a run (costs of that run's rows) is a span of its own, so that
// it hides in nothing. A pool of threads says how long they worked in each step; for the rest of it
// they waited.
#pragma once

#include <vector>

#include "mainspring/base/thread_pool.h"
#include "mainspring/ir/graph.h"
#include "mainspring/ir/row_table.h"
#include "mainspring/obs/timeline.h"

namespace mainspring {

class StepTimer {
 public:
  /// `graph` outlives the timer; its steps are the nodes that are no sources, in order.
  explicit StepTimer(const Graph& graph) : graph_(graph) {}

  /// Opens the run and, in it, the span of what precedes the first step (derived layouts).
  /// `pool`: whose threads run the steps, timed already; null: they are not asked.
  void begin_run(Timeline& timeline, const RowTable& table, const ThreadPool* pool = nullptr);
  void begin_step(size_t step);
  void end_run();

  /// Picks whose logits a step keeps or finds kept (ir/run_cost.h), by step; empty: none.
  void set_kept_picks(std::vector<int64_t> picks) { kept_picks_ = std::move(picks); }

 private:
  void make_labels();
  void note_waiting();

  const Graph& graph_;
  Timeline* timeline_ = nullptr;
  std::vector<Timeline::LabelId> labels_;  // by step
  std::vector<SpanCost> costs_;            // by step
  std::vector<int64_t> kept_picks_;        // by step
  const ThreadPool* pool_ = nullptr;
  size_t step_span_ = 0;   // the open step's, if has_step_
  bool has_step_ = false;
  LoopTimes before_step_;
};

}  // namespace mainspring

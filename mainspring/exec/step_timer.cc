#include "mainspring/exec/step_timer.h"

#include <algorithm>

#include "mainspring/ir/op_table.h"
#include "mainspring/ir/run_cost.h"

namespace mainspring {
namespace {

const char* phase_of(const Graph& graph, const Node& node) {
  if (node.recomputed) return "recompute";
  if (node.backward) return "backward";
  return touches_no_row(graph, node) ? "update" : "forward";
}

}  // namespace

void StepTimer::make_labels() {
  labels_.clear();
  for (const Node& node : graph_.nodes()) {
    const OpInfo& info = op_info(node.op);
    if (info.is_source) continue;
    labels_.push_back(
        timeline_->label(SpanKind::kOp, info.name, phase_of(graph_, node), node.path));
  }
}

void StepTimer::begin_run(Timeline& timeline, const RowTable& table, const ThreadPool* pool) {
  timeline_ = &timeline;
  pool_ = pool != nullptr && pool->size() > 1 ? pool : nullptr;
  has_step_ = false;
  timeline.begin(timeline.label(SpanKind::kGroup, "run"), {.rows = table.num_rows});
  timeline.begin(timeline.label(SpanKind::kHost, "profiler"));
  make_labels();
  costs_.clear();
  for (const Node& node : graph_.nodes()) {
    if (op_info(node.op).is_source) continue;
    const int64_t kept = costs_.size() < kept_picks_.size() ? kept_picks_[costs_.size()] : 0;
    const RunCost cost = run_cost(graph_, node, table, kept);
    costs_.push_back({.flops = cost.flops, .bytes = cost.bytes});
  }
  timeline.next(timeline.label(SpanKind::kHost, "weight layouts"));
}

void StepTimer::begin_step(size_t step) {
  timeline_->next(labels_[step], costs_[step]);
  note_waiting();
  step_span_ = timeline_->spans().size() - 1;
  has_step_ = true;
}

// Outside of the pool's loops the caller works and the others wait.
void StepTimer::note_waiting() {
  if (pool_ == nullptr) return;
  const LoopTimes now = pool_->times();
  if (has_step_) {
    const Span& span = timeline_->spans()[step_span_];
    const int64_t length = span.end_ns - span.begin_ns;
    const int64_t alone = length - (now.wall_ns - before_step_.wall_ns);
    const int64_t worked = now.busy_ns - before_step_.busy_ns + std::max<int64_t>(0, alone);
    const int64_t waiting = length - worked / pool_->size();
    timeline_->set_waiting(step_span_, std::clamp<int64_t>(waiting, 0, length));
  }
  before_step_ = now;
}

void StepTimer::end_run() {
  timeline_->end();
  note_waiting();
  has_step_ = false;
  timeline_->end();
}

}  // namespace mainspring

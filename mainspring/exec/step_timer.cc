#include "mainspring/exec/step_timer.h"

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

void StepTimer::begin_run(Timeline& timeline, const RowTable& table) {
  timeline_ = &timeline;
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

void StepTimer::end_run() {
  timeline_->end();
  timeline_->end();
}

}  // namespace mainspring

// From a node of the graph to a step that runs it.
//
// The one idea: a step is a closure over value ids; at run time it finds pointers in RunState and
// calls one op of exec/cpu/ops.h. Everything a step needs (scratch, derived layouts) is asked for
// at plan time, so running allocates nothing.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "mainspring/exec/cpu/cpu_buffer.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/ir/graph.h"

namespace mainspring::cpu {

/// A derived layout of a parameter that some step reads.
struct LayoutNeed {
  ValueId param = kNoValue;
  Layout layout = Layout::kForward;
  bool transient = false;  // made at every use into transient memory at this offset
  int64_t transient_offset = 0;
  bool paired = false;  // kept, and the other layout of the same matrix is kept too
};

/// Memory that one step leaves for a later one, beside the values of the graph.
struct KeptMemory {
  ValueId key = kNoValue;  // the value it goes with
  int64_t bytes = 0;
  int32_t first = 0;  // node that fills it
  int32_t last = 0;   // last node that reads it
};

/// What a run hands to its steps.
struct RunState {
  Context context;  // compute = the graph's
  const RowTable* table = nullptr;
  const RowTable* pick_table = nullptr;
  const KvView* kv = nullptr;
  RowCounts counts;
  std::vector<void*> values;         // by ValueId
  std::vector<CpuBuffer*> buffers;   // by ValueId; null for arena values
  std::vector<const void*> layouts;  // by need; null if transient
  std::vector<void*> kept;           // by index into StepBuilder::kept()
  std::byte* scratch = nullptr;
  std::byte* transient = nullptr;
  const std::vector<LayoutNeed>* needs = nullptr;

  template <typename T = void>
  T* at(ValueId value) const {
    return static_cast<T*>(values[static_cast<size_t>(value)]);
  }
  /// The layout of need `index`, made now if it is transient.
  const void* layout(size_t index) const;
};

using Step = std::function<void(RunState&)>;

/// Collects what the steps of one plan need.
class StepBuilder {
 public:
  StepBuilder(const Graph& graph, const Context& context, RowCounts capacity, Repack repack)
      : graph_(graph), context_(context), capacity_(capacity), repack_(repack) {}

  /// Makes the step of the next node of the graph (every node that is no source, in order).
  /// Errors: unimplemented naming an op without a kernel.
  Result<Step> make(const Node& node, int32_t index);

  const std::vector<KeptMemory>& kept() const { return kept_; }
  /// Of the step made last: picks whose logits it keeps, or finds kept.
  int64_t kept_picks() const { return kept_picks_; }
  const std::vector<LayoutNeed>& needs() const { return needs_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t transient_bytes() const { return transient_bytes_; }

  // ---- used by the makers in steps*.cc ----
  const Graph& graph() const { return graph_; }
  const Context& context() const { return context_; }
  RowCounts capacity() const { return capacity_; }
  const ValueType& type(ValueId value) const { return graph_.type(value); }
  int64_t dim(ValueId value, size_t axis) const { return type(value).shape.dims[axis]; }
  /// Declares that the step being made reads a layout; returns the need's index.
  size_t need(ValueId param, Layout layout);
  /// Declares that the step being made leaves `bytes` for a later one that finds them by `key`;
  /// returns their index into RunState::kept.
  size_t keep(ValueId key, int64_t bytes);
  /// The index of what an earlier step keeps under `key`, from now on until the step being made.
  std::optional<size_t> find_kept(ValueId key);
  /// Declares of how many picks the step being made keeps or finds the logits.
  void note_kept_picks(int64_t picks) { kept_picks_ = picks; }
  void want_scratch(size_t bytes) {
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(bytes));
  }

 private:
  bool is_remade(ValueId param, Layout layout) const;

  const Graph& graph_;
  Context context_;
  RowCounts capacity_;
  Repack repack_;
  std::vector<LayoutNeed> needs_;
  std::vector<KeptMemory> kept_;
  int32_t index_ = 0;  // of the node whose step is being made
  int64_t scratch_bytes_ = 0;
  int64_t transient_bytes_ = 0;
  int64_t step_transient_ = 0;
  int64_t kept_picks_ = 0;
};

// Makers by group of ops; each precondition: the node's op is of its group.
Step make_linear_step(StepBuilder& builder, const Node& node);        // steps_linear.cc
Step make_linear_grad_step(StepBuilder& builder, const Node& node);   // steps_linear.cc
Step make_weight_grad_step(StepBuilder& builder, const Node& node);   // steps_linear.cc
Step make_lora_up_grad_step(StepBuilder& builder, const Node& node);  // steps_linear.cc
Step make_head_step(StepBuilder& builder, const Node& node);          // steps_linear.cc
Step make_head_grad_step(StepBuilder& builder, const Node& node);     // steps_linear.cc
Step make_optimizer_step(StepBuilder& builder, const Node& node);     // steps_optimizer.cc
/// Norms, rope, attention, elementwise, rows, embedding: steps.cc. An empty Step: no
/// kernel.
Step make_simple_step(StepBuilder& builder, const Node& node);

}  // namespace mainspring::cpu

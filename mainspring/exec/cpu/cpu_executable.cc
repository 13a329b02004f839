#include "mainspring/exec/cpu/cpu_executable.h"

#include <algorithm>
#include <map>

#include "mainspring/base/check.h"
#include "mainspring/exec/cpu/arena_plan.h"
#include "mainspring/ir/op_table.h"
#include "mainspring/ir/passes/pass.h"

namespace mainspring::cpu {
namespace {

size_t at(ValueId value) { return static_cast<size_t>(value); }

std::string node_text(const Graph& graph, const Node& node) {
  std::string text(op_info(node.op).name);
  if (!node.outputs.empty()) text += " -> " + graph.type(node.outputs[0]).to_string();
  if (!node.path.empty()) text += "  " + node.path;
  return text;
}

// Rows and picked may be larger than the plan's capacity; everything else is exact.
Status check_shape(const std::string& name, const ValueType& want, const Buffer& buffer,
                   RowCounts capacity) {
  const auto& got = buffer.shape();
  bool ok = want.dtype == buffer.dtype() && want.shape.dims.size() == got.size();
  for (size_t i = 0; ok && i < got.size(); ++i) {
    const int64_t dim = want.shape.dims[i];
    ok = dim == kRows     ? got[i] >= capacity.rows
         : dim == kPicked ? got[i] >= capacity.picked
                          : got[i] == dim;
  }
  if (ok) return {};
  return invalid_argument("binding " + name + ": expected " + want.to_string() + ", got " +
                          ValueType{buffer.dtype(), {got}}.to_string());
}

// Finds the matrices of which both layouts are kept.
void mark_pairs(std::vector<LayoutNeed>& needs) {
  const auto is_kept = [](const LayoutNeed& need, Layout layout) {
    return !need.transient && need.layout == layout;
  };
  std::map<ValueId, LayoutNeed*> forward;
  for (LayoutNeed& need : needs) {
    if (is_kept(need, Layout::kForward)) forward[need.param] = &need;
  }
  for (LayoutNeed& need : needs) {
    const auto found = forward.find(need.param);
    if (!is_kept(need, Layout::kInputGrad) || found == forward.end()) continue;
    need.paired = true;
    found->second->paired = true;
  }
}

}  // namespace

Status SharedArena::ensure(int64_t bytes) {
  if (bytes <= memory_.size_bytes()) return {};
  memory_ = Memory();
  MS_ASSIGN_OR_RETURN(memory_, pool_->allocate_touched(bytes));
  ++generation_;
  return {};
}

Result<std::unique_ptr<Executable>> CpuExecutable::compile(Graph graph,
                                                           const CompileOptions& options,
                                                           const Context& context,
                                                           std::shared_ptr<SharedArena> arena,
                                                           const Executor& executor) {
  PassTimes times;
  MS_RETURN_IF_ERROR(verify(graph).with_context("traced graph"));
  MS_RETURN_IF_ERROR(run_passes(graph, options.passes, &times));
  std::unique_ptr<CpuExecutable> executable(new CpuExecutable(std::move(graph), executor));
  executable->arena_ = std::move(arena);
  executable->report_.pass_ms = std::move(times);
  MS_RETURN_IF_ERROR(executable->plan(options, context));
  return std::unique_ptr<Executable>(std::move(executable));
}

Status CpuExecutable::plan(const CompileOptions& options, const Context& context) {
  capacity_ = options.capacity;
  state_.context = context;
  state_.context.compute = graph_.compute();
  StepBuilder builder(graph_, state_.context, capacity_, options.repack);
  std::vector<int64_t> kept_picks;
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = graph_.nodes()[n];
    if (op_info(node.op).is_source) {
      sources_[std::get<SourceAttrs>(node.attrs).name] = node.outputs[0];
      continue;
    }
    MS_ASSIGN_OR_RETURN(Step step, builder.make(node, static_cast<int32_t>(n)));
    steps_.push_back(std::move(step));
    kept_picks.push_back(builder.kept_picks());
    report_.steps.push_back({.text = node_text(graph_, node),
                             .kernel = std::string(op_info(node.op).name),
                             .why = "the only candidate",
                             .flops = node_flops(graph_, node, capacity_),
                             .bytes = node_bytes(graph_, node, capacity_)});
  }
  needs_ = builder.needs();
  mark_pairs(needs_);
  kept_ = builder.kept();
  timer_.set_kept_picks(std::move(kept_picks));
  for (const LayoutNeed& need : needs_) {
    if (need.transient) continue;
    const auto& dims = graph_.type(need.param).shape.dims;
    const int64_t in = dims.back();
    report_.packed_bytes +=
        CpuBuffer::layout_bytes(state_.context, need.layout, dims.size() > 1 ? dims[0] : 1, in);
  }
  state_.values.assign(at(graph_.num_values()), nullptr);
  state_.buffers.assign(at(graph_.num_values()), nullptr);
  state_.layouts.assign(needs_.size(), nullptr);
  state_.kept.assign(kept_.size(), nullptr);
  state_.needs = &needs_;
  plan_values();
  scratch_offset_ = report_.arena_bytes;
  transient_offset_ = scratch_offset_ + (builder.scratch_bytes() + 63) / 64 * 64;
  report_.scratch_bytes = builder.scratch_bytes() + builder.transient_bytes();
  return arena_->ensure(transient_offset_ + builder.transient_bytes());
}

void CpuExecutable::plan_values() {
  const auto& nodes = graph_.nodes();
  const size_t num_values = at(graph_.num_values());
  offsets_.assign(num_values, -1);
  alias_of_.assign(num_values, kNoValue);
  std::vector<Lifetime> lives;
  std::vector<ValueId> owners;
  std::vector<int32_t> life_of(num_values, -1);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    const int32_t now = static_cast<int32_t>(n);
    for (ValueId input : node.inputs) {
      if (life_of[at(input)] >= 0) lives[static_cast<size_t>(life_of[at(input)])].last = now;
    }
    if (op_info(node.op).is_source) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (const int32_t alias = aliased_input(node, i); alias >= 0) {
        alias_of_[at(output)] = node.inputs[static_cast<size_t>(alias)];
        continue;
      }
      const ValueType& type = graph_.type(output);
      life_of[at(output)] = static_cast<int32_t>(lives.size());
      lives.push_back({dtype_bytes(type.dtype, type.shape.num_elements(capacity_)), now, now});
      owners.push_back(output);
    }
  }
  for (const GraphOutput& output : graph_.outputs()) {
    if (life_of[at(output.value)] < 0) continue;
    lives[static_cast<size_t>(life_of[at(output.value)])].last = static_cast<int32_t>(nodes.size());
  }
  for (const KeptMemory& kept : kept_) lives.push_back({kept.bytes, kept.first, kept.last});
  const ArenaPlan plan = plan_arena(lives);
  for (size_t i = 0; i < owners.size(); ++i) offsets_[at(owners[i])] = plan.offsets[i];
  kept_offsets_.assign(plan.offsets.begin() + static_cast<std::ptrdiff_t>(owners.size()),
                       plan.offsets.end());
  report_.arena_bytes = plan.total_bytes;
}

Status CpuExecutable::bind(std::string_view source, Buffer* buffer) {
  const auto found = sources_.find(source);
  if (found == sources_.end()) return not_found("no source named " + std::string(source));
  auto* cpu_buffer = dynamic_cast<CpuBuffer*>(buffer);
  if (cpu_buffer == nullptr)
    return invalid_argument("binding " + std::string(source) + ": not a CPU buffer");
  MS_RETURN_IF_ERROR(
      check_shape(std::string(source), graph_.type(found->second), *cpu_buffer, capacity_));
  state_.buffers[at(found->second)] = cpu_buffer;
  // Parameters are only read, so the constness of borrowed memory is kept in spirit.
  state_.values[at(found->second)] =
      const_cast<void*>(static_cast<const Buffer*>(cpu_buffer)->data());
  generation_ = 0;
  return {};
}

void CpuExecutable::resolve_arena() {
  if (generation_ == arena_->generation() && generation_ != 0) return;
  generation_ = arena_->generation();
  for (size_t value = 0; value < offsets_.size(); ++value) {
    if (offsets_[value] >= 0) state_.values[value] = arena_->data() + offsets_[value];
  }
  for (size_t value = 0; value < alias_of_.size(); ++value) {
    if (alias_of_[value] != kNoValue) {
      state_.values[value] = state_.values[at(alias_of_[value])];
      state_.buffers[value] = state_.buffers[at(alias_of_[value])];
    }
  }
  for (size_t i = 0; i < kept_offsets_.size(); ++i) {
    state_.kept[i] = arena_->data() + kept_offsets_[i];
  }
  state_.scratch = arena_->data() + scratch_offset_;
  state_.transient = arena_->data() + transient_offset_;
  for (const auto& [name, value] : sources_) {
    MS_CHECK(state_.buffers[at(value)] != nullptr, "source " + name + " is not bound");
  }
}

void CpuExecutable::refresh_layouts() {
  for (size_t i = 0; i < needs_.size(); ++i) {
    if (needs_[i].transient) continue;
    state_.layouts[i] = state_.buffers[at(needs_[i].param)]->layout(
        state_.context, needs_[i].layout, needs_[i].paired);
  }
}

void CpuExecutable::run(const RunArgs& args) {
  static constexpr RowTable kNoRows{};
  state_.table = args.table != nullptr ? args.table : &kNoRows;
  state_.pick_table = args.pick_table != nullptr ? args.pick_table : &kNoRows;
  state_.kv = args.kv;
  state_.counts = {state_.table->num_rows, static_cast<int64_t>(state_.table->picked.size())};
  MS_CHECK(state_.counts.rows <= capacity_.rows && state_.counts.picked <= capacity_.picked,
           "more rows than the plan's capacity");
  if (Timeline* timeline = executor_.timeline(); timeline != nullptr) {
    run_timed(*timeline);
    return;
  }
  resolve_arena();
  refresh_layouts();
  for (Step& step : steps_) step(state_);
}

void CpuExecutable::run_timed(Timeline& timeline) {
  ThreadPool& pool = *state_.context.pool;
  pool.set_timed(true);
  timer_.begin_run(timeline, *state_.table, &pool);
  resolve_arena();
  refresh_layouts();
  for (size_t i = 0; i < steps_.size(); ++i) {
    timer_.begin_step(i);
    steps_[i](state_);
  }
  timer_.end_run();
  pool.set_timed(false);
}

const void* CpuExecutable::output(std::string_view name) const {
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.name == name) return state_.values[at(output.value)];
  }
  return nullptr;
}

}  // namespace mainspring::cpu

// Steps of the linear family: several weights over one input, adapters, gradients, the head.
#include <algorithm>

#include "mainspring/exec/cpu/steps.h"

namespace mainspring::cpu {
namespace {

// One adapter of a linear: its inputs, output and layouts.
struct AdapterStep {
  LoraAttrs attrs;
  ValueId u;
  size_t a_need;
  size_t b_need;
  int64_t out;
};

// The adapters grouped by output, as LinearOutput::adapters wants contiguous spans.
std::vector<AdapterStep> adapters_by_output(StepBuilder& b, const Node& node,
                                            const LinearAttrs& attrs) {
  const size_t n = static_cast<size_t>(attrs.num_weights);
  const size_t fixed = 1 + n * (attrs.has_bias ? 2 : 1);
  std::vector<AdapterStep> steps;
  for (int32_t output = 0; output < attrs.num_weights; ++output) {
    for (size_t j = 0; j < attrs.adapters.size(); ++j) {
      if (attrs.adapters[j].output != output) continue;
      steps.push_back({attrs.adapters[j], node.outputs[n + j],
                       b.need(node.inputs[fixed + 2 * j], Layout::kForward),
                       b.need(node.inputs[fixed + 2 * j + 1], Layout::kForward),
                       b.dim(node.inputs[fixed + 2 * j + 1], 0)});
    }
  }
  return steps;
}

class LinearStep {
 public:
  LinearStep(StepBuilder& b, const Node& node)
      : attrs_(std::get<LinearAttrs>(node.attrs)),
        inputs_(node.inputs),
        outputs_(node.outputs),
        in_(b.dim(node.inputs[0], 1)),
        first_dim_(b.dim(node.inputs[0], 0)),
        adapters_(adapters_by_output(b, node, attrs_)),
        ups_(adapters_.size()) {
    const size_t n = static_cast<size_t>(attrs_.num_weights);
    const int64_t rows = first_dim_ == kPicked ? b.capacity().picked : b.capacity().rows;
    for (size_t i = 0; i < n; ++i) {
      weight_needs_.push_back(b.need(node.inputs[1 + i], Layout::kForward));
      if (attrs_.has_bias) bias_needs_.push_back(b.need(node.inputs[1 + n + i], Layout::kVector));
      widths_.push_back(b.dim(node.inputs[1 + i], 0));
    }
    args_.resize(n);
    b.want_scratch(linear_forward_scratch_bytes(b.context(), rows, in_));
    if (!adapters_.empty()) b.want_scratch(lora_down_scratch_bytes(b.context(), rows, in_));
  }

  void operator()(RunState& run) {
    const int64_t rows = first_dim_ == kPicked ? run.counts.picked : run.counts.rows;
    const void* x = run.at(inputs_[0]);
    for (size_t j = 0; j < adapters_.size(); ++j) run_adapter(run, rows, x, j);
    size_t first_up = 0;
    for (size_t i = 0; i < args_.size(); ++i) {
      size_t last_up = first_up;
      while (last_up < adapters_.size() &&
             adapters_[last_up].attrs.output == static_cast<int32_t>(i)) {
        ++last_up;
      }
      args_[i] = {.weight = {widths_[i], in_, run.layout(weight_needs_[i]), nullptr},
                  .bias = attrs_.has_bias ? run.layout(bias_needs_[i]) : nullptr,
                  .y = run.at(outputs_[i]),
                  .y_f32 = attrs_.f32_output,
                  .adapters = std::span<const LoraUp>(ups_).subspan(first_up, last_up - first_up)};
      first_up = last_up;
    }
    linear_forward(run.context, rows, in_, x, args_, first_dim_ == kPicked ? nullptr : run.table,
                   run.scratch);
  }

 private:
  void run_adapter(RunState& run, int64_t rows, const void* x, size_t j) {
    const AdapterStep& adapter = adapters_[j];
    const LoraAttrs& lora = adapter.attrs;
    lora_down(run.context, rows, in_, x,
              {.slot = lora.slot,
               .rank = lora.rank,
               .scale = lora.scale,
               .dropout = lora.dropout,
               .dropout_key = lora.dropout_key,
               .a = {lora.rank, in_, run.layout(adapter.a_need), nullptr},
               .u = run.at(adapter.u)},
              *run.table, run.scratch);
    ups_[j] = {lora.slot,
               lora.rank,
               run.at(adapter.u),
               {adapter.out, lora.rank, run.layout(adapter.b_need), nullptr}};
  }

  LinearAttrs attrs_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  int64_t in_;
  int64_t first_dim_;
  std::vector<AdapterStep> adapters_;
  std::vector<LoraUp> ups_;
  std::vector<size_t> weight_needs_;
  std::vector<size_t> bias_needs_;
  std::vector<int64_t> widths_;
  std::vector<LinearOutput> args_;
};

class LinearGradStep {
 public:
  LinearGradStep(StepBuilder& b, const Node& node)
      : attrs_(std::get<LinearAttrs>(node.attrs)),
        inputs_(node.inputs),
        dx_(node.outputs[0]),
        by_picks_(b.dim(node.inputs[0], 0) == kPicked) {
    const size_t n = static_cast<size_t>(attrs_.num_weights);
    in_ = b.dim(inputs_[n], 1);
    int64_t summed = 0;
    for (size_t i = 0; i < n; ++i) {
      needs_.push_back(b.need(inputs_[n + i], Layout::kInputGrad));
      widths_.push_back(b.dim(inputs_[n + i], 0));
      summed += widths_.back();
    }
    for (size_t j = 0; j < attrs_.adapters.size(); ++j) {
      needs_.push_back(b.need(inputs_[2 * n + 2 * j + 1], Layout::kInputGrad));
    }
    terms_.resize(n);
    lora_terms_.resize(attrs_.adapters.size());
    const int64_t rows = by_picks_ ? b.capacity().picked : b.capacity().rows;
    b.want_scratch(linear_input_grad_scratch_bytes(b.context(), rows, in_, summed));
  }

  void operator()(RunState& run) {
    const size_t n = terms_.size();
    for (size_t i = 0; i < n; ++i) {
      terms_[i] = {run.at(inputs_[i]), {widths_[i], in_, nullptr, run.layout(needs_[i])}};
    }
    for (size_t j = 0; j < lora_terms_.size(); ++j) {
      const LoraAttrs& lora = attrs_.adapters[j];
      lora_terms_[j] = {.slot = lora.slot,
                        .rank = lora.rank,
                        .dropout = lora.dropout,
                        .dropout_key = lora.dropout_key,
                        .du = run.at(inputs_[2 * n + 2 * j]),
                        .a = {lora.rank, in_, nullptr, run.layout(needs_[n + j])}};
    }
    linear_input_grad(run.context, by_picks_ ? run.counts.picked : run.counts.rows, in_, terms_,
                      lora_terms_, run.at(dx_), by_picks_ ? *run.pick_table : *run.table,
                      run.scratch);
  }

 private:
  LinearAttrs attrs_;
  std::vector<ValueId> inputs_;
  ValueId dx_;
  bool by_picks_;
  int64_t in_ = 0;
  std::vector<size_t> needs_;
  std::vector<int64_t> widths_;
  std::vector<LinearInputGradTerm> terms_;
  std::vector<LoraInputGradTerm> lora_terms_;
};

}  // namespace

Step make_linear_step(StepBuilder& b, const Node& node) { return LinearStep(b, node); }
Step make_linear_grad_step(StepBuilder& b, const Node& node) { return LinearGradStep(b, node); }

Step make_weight_grad_step(StepBuilder& b, const Node& node) {
  const auto& a = std::get<WeightGradAttrs>(node.attrs);
  const int64_t out = b.dim(node.inputs[0], 1);
  const int64_t in = b.dim(node.inputs[1], 1);
  const bool by_picks = b.dim(node.inputs[0], 0) == kPicked;
  const int64_t capacity = by_picks ? b.capacity().picked : b.capacity().rows;
  b.want_scratch(linear_weight_grad_scratch_bytes(b.context(), capacity, out, in));
  return [inputs = node.inputs, a, out, in, by_picks](RunState& run) {
    linear_weight_grad(run.context, by_picks ? run.counts.picked : run.counts.rows,
                       {.dy = run.at(inputs[0]),
                        .out = out,
                        .x = run.at(inputs[1]),
                        .in = in,
                        .acc = run.at<float>(inputs[2]),
                        .slot = a.slot,
                        .x_dropout = a.x_dropout,
                        .dropout_key = a.dropout_key},
                       by_picks ? *run.pick_table : *run.table, run.scratch);
  };
}

Step make_lora_up_grad_step(StepBuilder& b, const Node& node) {
  const auto& lora = std::get<LoraAttrs>(node.attrs);
  const int64_t out = b.dim(node.inputs[0], 1);
  const size_t need = b.need(node.inputs[1], Layout::kInputGrad);
  b.want_scratch(linear_input_grad_scratch_bytes(b.context(), b.capacity().rows, lora.rank, out));
  return [inputs = node.inputs, du = node.outputs[0], lora, out, need](RunState& run) {
    lora_up_input_grad(run.context, run.counts.rows, out, run.at(inputs[0]),
                       {.slot = lora.slot,
                        .rank = lora.rank,
                        .scale = lora.scale,
                        .b = {out, lora.rank, nullptr, run.layout(need)},
                        .du = run.at(du)},
                       *run.table, run.scratch);
  };
}

namespace {

/// Memory for logits between the head and its gradient; pointers come at run time.
struct KeptLogits {
  size_t index = 0;
  int64_t picks = 0;  // 0: none

  void into(Head& head, const RunState& run) const {
    if (picks == 0) return;
    head.kept_logits = static_cast<float*>(run.kept[index]);
    head.kept_picks = picks;
  }
};

/// True if a gradient of the head whose log-sum-exp is `lse` is in the graph.
bool has_head_grad(const Graph& graph, ValueId lse) {
  const auto& nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.op == OpKind::kHeadLogprobGrad && node.inputs[3] == lse;
  });
}

}  // namespace

namespace {

/// Of each pick.
int64_t num_targets(StepBuilder& b, const Node& node) {
  return b.type(node.inputs[2]).shape.rank() > 1 ? b.dim(node.inputs[2], 1) : 1;
}

}  // namespace

Step make_head_step(StepBuilder& b, const Node& node) {
  const int64_t targets = num_targets(b, node);
  const int64_t d = b.dim(node.inputs[0], 1);
  const int64_t vocabulary = b.dim(node.inputs[1], 0);
  const float softcap = std::get<HeadAttrs>(node.attrs).softcap;
  const size_t need = b.need(node.inputs[1], Layout::kForward);
  KeptLogits kept;
  if (has_head_grad(b.graph(), node.outputs[1])) {
    kept.picks = head_kept_picks(b.capacity().picked, vocabulary);
    if (kept.picks > 0) kept.index = b.keep(node.outputs[1], kept.picks * vocabulary * 4);
    b.note_kept_picks(kept.picks);
  }
  b.want_scratch(head_scratch_bytes(b.context(), b.capacity().picked, d, vocabulary, kept.picks));
  return [in = node.inputs, out = node.outputs, d, vocabulary, need, kept, softcap,
          targets](RunState& run) {
    Head head{.picked = run.counts.picked,
              .d = d,
              .weight = {vocabulary, d, run.layout(need), nullptr},
              .x = run.at(in[0]),
              .targets = run.at<int32_t>(in[2]),
              .num_targets = targets,
              .picks = run.table->picked.data()};
    head.softcap = softcap;
    kept.into(head, run);
    head_logprob_forward(run.context, head, run.at<float>(out[0]), run.at<float>(out[1]),
                         run.scratch);
  };
}

Step make_head_grad_step(StepBuilder& b, const Node& node) {
  const int64_t targets = num_targets(b, node);
  const int64_t d = b.dim(node.inputs[0], 1);
  const int64_t vocabulary = b.dim(node.inputs[1], 0);
  const float softcap = std::get<HeadAttrs>(node.attrs).softcap;
  KeptLogits kept;
  if (const auto index = b.find_kept(node.inputs[3])) {
    kept = {*index, head_kept_picks(b.capacity().picked, vocabulary)};
    b.note_kept_picks(kept.picks);
  }
  // Only logits that were not kept are computed again.
  std::optional<size_t> forward;
  if (kept.picks < b.capacity().picked) forward = b.need(node.inputs[1], Layout::kForward);
  const size_t input_grad = b.need(node.inputs[1], Layout::kInputGrad);
  b.want_scratch(head_scratch_bytes(b.context(), b.capacity().picked, d, vocabulary, kept.picks));
  const bool has_d_lse = std::get<HeadAttrs>(node.attrs).has_d_lse;
  return [in = node.inputs, out = node.outputs, d, vocabulary, forward, input_grad, kept, softcap,
          has_d_lse, targets](RunState& run) {
    Head head{
        .picked = run.counts.picked,
        .d = d,
        .weight = {vocabulary, d, forward ? run.layout(*forward) : nullptr, run.layout(input_grad)},
        .x = run.at(in[0]),
        .targets = run.at<int32_t>(in[2]),
        .num_targets = targets,
        .picks = run.table->picked.data()};
    head.softcap = softcap;
    kept.into(head, run);
    if (has_d_lse) head.d_lse = run.at<float>(in[5]);
    const size_t acc_input = has_d_lse ? 6 : 5;
    float* acc = in.size() > acc_input ? run.at<float>(in[acc_input]) : nullptr;
    head_logprob_grad(run.context, head, run.at<float>(in[3]), run.at<float>(in[4]), run.at(out[0]),
                      acc, *run.pick_table, run.scratch);
  };
}

}  // namespace mainspring::cpu

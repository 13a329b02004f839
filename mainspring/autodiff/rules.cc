#include "mainspring/autodiff/rules.h"

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

// Appends an accumulating node whose last output is the accumulator.
void accumulate(RuleContext& c, OpKind op, std::vector<Tensor> inputs, Attrs attrs) {
  c.tracer().node(op, std::move(inputs), std::move(attrs));
}

void embedding_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy) return;
  if (auto acc = c.accumulator(1)) {
    accumulate(c, OpKind::kEmbeddingGrad, {c.input(0), *dy, *acc}, NoAttrs{});
  }
}

void position_embedding_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy) return;
  if (auto acc = c.accumulator(0)) {
    accumulate(c, OpKind::kPositionEmbeddingGrad, {*dy, *acc}, NoAttrs{});
  }
}

// Gradients of one adapter's A and B; returns du = round(scale * dy B), or nothing if nobody needs
// it.
std::optional<Tensor> lora_rule(RuleContext& c, size_t adapter, size_t fixed, const Tensor& dy) {
  const auto& attrs = std::get<LinearAttrs>(c.node().attrs);
  const LoraAttrs& lora = attrs.adapters[adapter];
  const size_t a = fixed + 2 * adapter;
  const Tensor u = c.output(static_cast<size_t>(attrs.num_weights) + adapter);
  if (auto acc = c.accumulator(a + 1)) {
    accumulate(c, OpKind::kLinearWeightGrad, {dy, u, *acc}, WeightGradAttrs{lora.slot, 0.0f, 0});
  }
  auto acc_a = c.accumulator(a);
  if (!acc_a && !c.wants_grad(0)) return std::nullopt;
  const Tensor du = c.tracer().node(OpKind::kLoraUpGrad, {dy, c.input(a + 1)}, lora)[0];
  if (acc_a) {
    accumulate(c, OpKind::kLinearWeightGrad, {du, c.input(0), *acc_a},
               WeightGradAttrs{lora.slot, lora.dropout, lora.dropout_key});
  }
  return du;
}

// Weights and biases first, then adapters, then the one reduction of the input gradient (rule 5).
// The gradient of an f32 output comes in the compute dtype, as logits' do (rule 13).
void linear_rule(RuleContext& c) {
  const auto& attrs = std::get<LinearAttrs>(c.node().attrs);
  const size_t n = static_cast<size_t>(attrs.num_weights);
  const size_t fixed = 1 + n * (attrs.has_bias ? 2 : 1);
  std::vector<Tensor> dys;
  std::vector<Tensor> weights;
  std::vector<int32_t> term_of(n, -1);
  for (size_t i = 0; i < n; ++i) {
    const auto dy = c.output_grad(i);
    if (!dy) continue;
    term_of[i] = static_cast<int32_t>(dys.size());
    dys.push_back(*dy);
    weights.push_back(c.input(1 + i));
    if (auto acc = c.accumulator(1 + i)) {
      accumulate(c, OpKind::kLinearWeightGrad, {*dy, c.input(0), *acc}, WeightGradAttrs{});
    }
    if (attrs.has_bias) {
      if (auto acc = c.accumulator(1 + n + i))
        accumulate(c, OpKind::kBiasGrad, {*dy, *acc}, NoAttrs{});
    }
  }
  if (dys.empty()) return;
  LinearAttrs grad_attrs{.num_weights = static_cast<int32_t>(dys.size()),
                         .has_bias = false,
                         .f32_output = false,
                         .adapters = {}};
  std::vector<Tensor> adapter_inputs;
  for (size_t j = 0; j < attrs.adapters.size(); ++j) {
    const int32_t term = term_of[static_cast<size_t>(attrs.adapters[j].output)];
    if (term < 0) continue;
    const auto du = lora_rule(c, j, fixed, dys[static_cast<size_t>(term)]);
    if (!du) continue;
    grad_attrs.adapters.push_back(attrs.adapters[j]);
    grad_attrs.adapters.back().output = term;
    adapter_inputs.push_back(*du);
    adapter_inputs.push_back(c.input(fixed + 2 * j));
  }
  if (!c.wants_grad(0)) return;
  std::vector<Tensor> inputs = dys;
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), adapter_inputs.begin(), adapter_inputs.end());
  c.add_grad(0, c.tracer().node(OpKind::kLinearInputGrad, std::move(inputs), grad_attrs)[0]);
}

void norm_grad(RuleContext& c, OpKind op, const Tensor& dy) {
  std::vector<Tensor> inputs{c.input(0), c.input(1), dy};
  if (auto acc = c.accumulator(1)) inputs.push_back(*acc);
  const Tensor dx = c.tracer().node(op, std::move(inputs), c.node().attrs)[0];
  if (c.wants_grad(0)) c.add_grad(0, dx);
}

void rms_norm_rule(RuleContext& c) {
  if (const auto dy = c.output_grad(0)) norm_grad(c, OpKind::kRmsNormGrad, *dy);
}

void layer_norm_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy) return;
  if (auto acc = c.accumulator(2)) accumulate(c, OpKind::kBiasGrad, {*dy, *acc}, NoAttrs{});
  norm_grad(c, OpKind::kLayerNormGrad, *dy);
}

void rope_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy || !c.wants_grad(0)) return;
  RopeAttrs attrs = std::get<RopeAttrs>(c.node().attrs);
  attrs.inverse = !attrs.inverse;
  c.add_grad(0, c.tracer().node(OpKind::kRope, {*dy, c.input(1)}, attrs)[0]);
}

void attention_rule(RuleContext& c) {
  const auto d_o = c.output_grad(0);
  if (!d_o) return;
  const auto grads = c.tracer().node(
      OpKind::kAttentionGrad, {c.input(0), c.input(1), c.input(2), c.output(0), c.output(1), *d_o},
      c.node().attrs);
  for (size_t i = 0; i < 3; ++i) {
    if (c.wants_grad(i)) c.add_grad(i, grads[i]);
  }
}

template <OpKind kGrad>
void activation_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy || !c.wants_grad(0)) return;
  c.add_grad(0, c.tracer().node(kGrad, {c.input(0), *dy}, NoAttrs{})[0]);
}

void mul_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy) return;
  if (c.wants_grad(0)) c.add_grad(0, mul(*dy, c.input(1)));
  if (c.wants_grad(1)) c.add_grad(1, mul(*dy, c.input(0)));
}

template <OpKind kGrad>
void gated_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy) return;
  const auto grads = c.tracer().node(kGrad, {c.input(0), c.input(1), *dy}, NoAttrs{});
  for (size_t i = 0; i < 2; ++i) {
    if (c.wants_grad(i)) c.add_grad(i, grads[i]);
  }
}

void add_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy) return;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) {
    if (c.wants_grad(i)) c.add_grad(i, *dy);
  }
}

void gather_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy || !c.wants_grad(0)) return;
  c.add_grad(0, c.tracer().node(OpKind::kScatterRows, {*dy}, NoAttrs{})[0]);
}

void head_rule(RuleContext& c) {
  auto d_logprob = c.output_grad(0);
  const auto d_lse = c.output_grad(1);
  if (!d_logprob && !d_lse) return;
  if (!d_logprob && c.input(2).shape().rank() > 1) {
    throw ShapeError("[head_logprob] of several targets has no gradient by lse alone");
  }
  if (!d_logprob) d_logprob = fill_picked(c.tracer(), 0.0f);
  std::vector<Tensor> inputs{c.input(0), c.input(1), c.input(2), c.output(1), *d_logprob};
  if (d_lse) inputs.push_back(*d_lse);
  if (auto acc = c.accumulator(1)) inputs.push_back(*acc);
  HeadAttrs attrs = std::get<HeadAttrs>(c.node().attrs);
  attrs.has_d_lse = d_lse.has_value();
  const Tensor dx = c.tracer().node(OpKind::kHeadLogprobGrad, std::move(inputs), attrs)[0];
  if (c.wants_grad(0)) c.add_grad(0, dx);
}

void scale_rule(RuleContext& c) {
  const auto dy = c.output_grad(0);
  if (!dy || !c.wants_grad(0)) return;
  c.add_grad(0, scale(*dy, std::get<ScalarAttrs>(c.node().attrs).value));
}

// The loss: value_and_grad seeds its input with ones, so there is nothing left to do here.
void reduce_sum_rule(RuleContext& c) {
  if (c.wants_grad(0)) c.add_grad(0, fill_picked(c.tracer(), 1.0f));
}

}  // namespace

GradRule grad_rule(OpKind op) {
  switch (op) {
    case OpKind::kEmbedding:
      return embedding_rule;
    case OpKind::kPositionEmbedding:
      return position_embedding_rule;
    case OpKind::kLinear:
      return linear_rule;
    case OpKind::kRmsNorm:
      return rms_norm_rule;
    case OpKind::kLayerNorm:
      return layer_norm_rule;
    case OpKind::kRope:
      return rope_rule;
    case OpKind::kAttention:
      return attention_rule;
    case OpKind::kSilu:
      return activation_rule<OpKind::kSiluGrad>;
    case OpKind::kGelu:
      return activation_rule<OpKind::kGeluGrad>;
    case OpKind::kMul:
      return mul_rule;
    case OpKind::kSiluMul:
      return gated_rule<OpKind::kSiluMulGrad>;
    case OpKind::kGeluMul:
      return gated_rule<OpKind::kGeluMulGrad>;
    case OpKind::kAdd:
      return add_rule;
    case OpKind::kGatherRows:
      return gather_rule;
    case OpKind::kHeadLogprob:
      return head_rule;
    case OpKind::kScale:
      return scale_rule;
    case OpKind::kReduceSum:
      return reduce_sum_rule;
    default:
      return nullptr;
  }
}

}  // namespace mainspring

#include "mainspring/tensor/tensor.h"

#include "mainspring/base/check.h"

namespace mainspring {

const ValueType& Tensor::type() const {
  MS_CHECK(tracer_ != nullptr, "an empty Tensor has no type");
  return tracer_->graph().type(value_);
}

Tensor Tracer::source(OpKind op, const std::string& name, ValueType type) {
  for (const auto& [known, tensor] : sources_) {
    if (known != name) continue;
    if (!(tensor.type() == type)) {
      throw ShapeError("[source] " + name + " was traced as " + tensor.type().to_string() +
                       ", got " + type.to_string());
    }
    return tensor;
  }
  const Tensor tensor(this, graph_.add_source(op, name, std::move(type)));
  sources_.emplace_back(name, tensor);
  return tensor;
}

Tensor Tracer::input(const std::string& name, ValueType type) {
  return source(OpKind::kInput, name, std::move(type));
}
Tensor Tracer::param(const std::string& name, ValueType type) {
  return source(OpKind::kParam, name, std::move(type));
}
Tensor Tracer::state(const std::string& name, ValueType type) {
  return source(OpKind::kState, name, std::move(type));
}

std::vector<Tensor> Tracer::node(OpKind op, std::vector<Tensor> inputs, Attrs attrs) {
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    MS_CHECK(input.is_valid() && &input.tracer() == this, "an input of another trace");
    ids.push_back(input.value());
  }
  auto outputs = graph_.add_node(op, std::move(ids), std::move(attrs), path_, region_, backward_);
  if (!outputs.ok()) throw ShapeError(outputs.status().message());
  std::vector<Tensor> tensors;
  for (ValueId value : *outputs) tensors.emplace_back(this, value);
  return tensors;
}

Tracer::Scope::Scope(Tracer& tracer, std::string_view name, int32_t region)
    : tracer_(tracer), saved_path_(tracer.path_), saved_region_(tracer.region_) {
  tracer.path_ += (tracer.path_.empty() ? "" : ".") + std::string(name);
  if (region >= 0) tracer.region_ = region;
}

Tracer::Scope::~Scope() {
  tracer_.path_ = std::move(saved_path_);
  tracer_.region_ = saved_region_;
}

Tensor embedding(const Tensor& tokens, const Tensor& table) {
  return tokens.tracer().node(OpKind::kEmbedding, {tokens, table}, NoAttrs{})[0];
}

std::vector<Tensor> linear(const Tensor& x, const std::vector<Tensor>& weights,
                           const LinearOptions& options) {
  LinearAttrs attrs{.num_weights = static_cast<int32_t>(weights.size()),
                    .has_bias = !options.biases.empty(),
                    .f32_output = options.f32_output,
                    .adapters = {}};
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), options.biases.begin(), options.biases.end());
  for (const LoraTensors& lora : options.adapters) {
    attrs.adapters.push_back(lora.attrs);
    inputs.push_back(lora.a);
    inputs.push_back(lora.b);
  }
  std::vector<Tensor> outputs =
      x.tracer().node(OpKind::kLinear, std::move(inputs), std::move(attrs));
  outputs.resize(weights.size());  // the rest are the adapters' saved u
  return outputs;
}

Tensor position_embedding(const Tensor& table) {
  return table.tracer().node(OpKind::kPositionEmbedding, {table}, NoAttrs{})[0];
}

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps, bool plus_one) {
  const int64_t width = w.shape().rank() == 1 ? w.shape().dims[0] : 0;
  return x.tracer().node(OpKind::kRmsNorm, {x, w}, NormAttrs{width, eps, plus_one})[0];
}

Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  const int64_t width = w.shape().rank() == 1 ? w.shape().dims[0] : 0;
  return x.tracer().node(OpKind::kLayerNorm, {x, w, b}, NormAttrs{width, eps})[0];
}

Tensor rope(const Tensor& x, const Tensor& table, int64_t heads, int64_t first_row) {
  const int64_t width = heads > 0 && x.shape().rank() == 2 ? x.shape().dims[1] / heads : 0;
  return x.tracer().node(OpKind::kRope, {x, table}, RopeAttrs{heads, width, false, first_row})[0];
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionAttrs& attrs) {
  return q.tracer().node(OpKind::kAttention, {q, k, v}, attrs)[0];
}

Tensor gelu(const Tensor& x) { return x.tracer().node(OpKind::kGelu, {x}, NoAttrs{})[0]; }
Tensor silu(const Tensor& x) { return x.tracer().node(OpKind::kSilu, {x}, NoAttrs{})[0]; }

Tensor mul(const Tensor& a, const Tensor& b) {
  return a.tracer().node(OpKind::kMul, {a, b}, NoAttrs{})[0];
}

Tensor add(const std::vector<Tensor>& terms) {
  MS_CHECK(!terms.empty(), "add of nothing");
  return terms[0].tracer().node(OpKind::kAdd, terms, NoAttrs{})[0];
}

Tensor gather_rows(const Tensor& x) {
  return x.tracer().node(OpKind::kGatherRows, {x}, NoAttrs{})[0];
}

Tensor soft_cap(const Tensor& x, float cap) {
  return x.tracer().node(OpKind::kSoftCap, {x}, ScalarAttrs{cap})[0];
}

Tensor head_logprob(const Tensor& x, const Tensor& head, const Tensor& targets, float softcap) {
  return head_outputs(x, head, targets, softcap).logprob;
}

HeadOutputs head_outputs(const Tensor& x, const Tensor& head, const Tensor& targets,
                         float softcap) {
  const auto out =
      x.tracer().node(OpKind::kHeadLogprob, {x, head, targets}, HeadAttrs{.softcap = softcap});
  return {out[0], out[1]};
}

Tensor scale(const Tensor& x, float factor) {
  return x.tracer().node(OpKind::kScale, {x}, ScalarAttrs{factor})[0];
}

Tensor reduce_sum(const Tensor& x) {
  return x.tracer().node(OpKind::kReduceSum, {x}, NoAttrs{})[0];
}

Tensor fill_picked(Tracer& tracer, float value) {
  return tracer.node(OpKind::kFill, {}, ScalarAttrs{value})[0];
}

}  // namespace mainspring

#include "mainspring/exec/cpu/steps.h"

#include <algorithm>

#include "mainspring/ir/op_table.h"

namespace mainspring::cpu {
namespace {

// f32 ops on per-token values use the f32 kernels whatever the compute dtype is.
Context context_for(const RunState& run, DType dtype) {
  Context context = run.context;
  context.compute = dtype;
  return context;
}

AttentionShape shape_of(const AttentionAttrs& a) {
  return {a.query_heads, a.kv_heads, a.head_width, a.scale, a.window, a.softcap};
}

Step make_attention(StepBuilder& b, const Node& node) {
  const auto& a = std::get<AttentionAttrs>(node.attrs);
  const AttentionShape shape = shape_of(a);
  b.want_scratch(attention_forward_scratch_bytes(b.context(), shape, b.capacity().rows));
  return [in = node.inputs, out = node.outputs, shape, layer = a.layer](RunState& run) {
    attention_forward(run.context, shape, run.counts.rows, run.at(in[0]), run.at(in[1]),
                      run.at(in[2]), run.at(out[0]), run.at<float>(out[1]), *run.table, run.kv,
                      layer, run.scratch);
  };
}

Step make_attention_grad(StepBuilder& b, const Node& node) {
  const auto& a = std::get<AttentionAttrs>(node.attrs);
  const AttentionShape shape = shape_of(a);
  b.want_scratch(attention_grad_scratch_bytes(b.context(), shape, b.capacity().rows));
  return [in = node.inputs, out = node.outputs, shape](RunState& run) {
    attention_grad(run.context, shape, run.counts.rows, run.at(in[0]), run.at(in[1]), run.at(in[2]),
                   run.at(in[3]), run.at<float>(in[4]), run.at(in[5]), run.at(out[0]),
                   run.at(out[1]), run.at(out[2]), *run.table, run.scratch);
  };
}

int64_t rows_of(const RunState& run, int64_t dim) {
  return dim == kPicked ? run.counts.picked : run.counts.rows;
}

NormShape norm_shape_of(const StepBuilder& b, const Node& node) {
  const auto& a = std::get<NormAttrs>(node.attrs);
  return {b.dim(node.inputs[0], 1), a.width, a.eps, a.plus_one};
}

Step make_norm(StepBuilder& b, const Node& node) {
  const NormShape shape = norm_shape_of(b, node);
  const size_t w = b.need(node.inputs[1], Layout::kVector);
  const int64_t first = b.dim(node.inputs[0], 0);
  if (node.op == OpKind::kLayerNorm) {
    const size_t bias = b.need(node.inputs[2], Layout::kVector);
    return [in = node.inputs, out = node.outputs, shape, w, bias, first](RunState& run) {
      layer_norm_forward(run.context, shape, rows_of(run, first), run.at(in[0]), run.layout(w),
                         run.layout(bias), run.at(out[0]));
    };
  }
  return [in = node.inputs, out = node.outputs, shape, w, first](RunState& run) {
    rms_norm_forward(run.context, shape, rows_of(run, first), run.at(in[0]), run.layout(w),
                     run.at(out[0]));
  };
}

Step make_norm_grad(StepBuilder& b, const Node& node) {
  const NormShape shape = norm_shape_of(b, node);
  const size_t w = b.need(node.inputs[1], Layout::kVector);
  const int64_t first = b.dim(node.inputs[0], 0);
  const auto grad = node.op == OpKind::kLayerNormGrad ? layer_norm_grad : rms_norm_grad;
  return [in = node.inputs, out = node.outputs, shape, w, first, grad](RunState& run) {
    float* acc = in.size() > 3 ? run.at<float>(in[3]) : nullptr;
    const RowTable& table = first == kPicked ? *run.pick_table : *run.table;
    grad(run.context, shape, rows_of(run, first), run.at(in[0]), run.layout(w), run.at(in[2]),
         run.at(out[0]), acc, table);
  };
}

Step make_rope(StepBuilder& b, const Node& node) {
  const auto& a = std::get<RopeAttrs>(node.attrs);
  const RopeShape shape{a.heads, a.head_width, 2 * b.dim(node.inputs[1], 1), a.inverse};
  const int64_t offset = a.first_row * shape.rotary;
  return [in = node.inputs, out = node.outputs, shape, offset](RunState& run) {
    rope(run.context, shape, run.counts.rows, run.at<float>(in[1]) + offset, run.at(in[0]),
         run.at(out[0]), *run.table);
  };
}

Activation activation_of(OpKind op) {
  const bool is_gelu = op == OpKind::kGelu || op == OpKind::kGeluGrad || op == OpKind::kGeluMul ||
                       op == OpKind::kGeluMulGrad;
  return is_gelu ? Activation::kGelu : Activation::kSilu;
}

Step make_elementwise(StepBuilder& b, const Node& node) {
  const ValueType type = b.type(node.inputs[0]);
  const auto& in = node.inputs;
  const auto& out = node.outputs;
  const Activation f = activation_of(node.op);
  switch (node.op) {
    case OpKind::kSilu:
    case OpKind::kGelu:
      return [in, out, type, f](RunState& run) {
        activation_forward(context_for(run, type.dtype), f, type.shape.num_elements(run.counts),
                           run.at(in[0]), run.at(out[0]));
      };
    case OpKind::kSiluGrad:
    case OpKind::kGeluGrad:
      return [in, out, type, f](RunState& run) {
        activation_grad(context_for(run, type.dtype), f, type.shape.num_elements(run.counts),
                        run.at(in[0]), run.at(in[1]), run.at(out[0]));
      };
    case OpKind::kMul:
      return [in, out, type](RunState& run) {
        multiply(context_for(run, type.dtype), type.shape.num_elements(run.counts), run.at(in[0]),
                 run.at(in[1]), run.at(out[0]));
      };
    case OpKind::kSiluMul:
    case OpKind::kGeluMul:
      return [in, out, type, f](RunState& run) {
        gated_forward(run.context, f, type.shape.num_elements(run.counts), run.at(in[0]),
                      run.at(in[1]), run.at(out[0]));
      };
    case OpKind::kSiluMulGrad:
    case OpKind::kGeluMulGrad:
      return [in, out, type, f](RunState& run) {
        gated_grad(run.context, f, type.shape.num_elements(run.counts), run.at(in[0]),
                   run.at(in[1]), run.at(in[2]), run.at(out[0]), run.at(out[1]));
      };
    default:
      return {};
  }
}

Step make_scale(StepBuilder& b, const Node& node) {
  const ValueType type = b.type(node.inputs[0]);
  const float value = std::get<ScalarAttrs>(node.attrs).value;
  if (node.op == OpKind::kSoftCap) {
    return [in = node.inputs, out = node.outputs, type, value](RunState& run) {
      soft_cap(run.context, type.shape.num_elements(run.counts), run.at<float>(in[0]), value,
               run.at<float>(out[0]));
    };
  }
  return [in = node.inputs, out = node.outputs, type, value](RunState& run) {
    scale_values(context_for(run, type.dtype), type.shape.num_elements(run.counts), run.at(in[0]),
                 value, run.at(out[0]));
  };
}

Step make_add(StepBuilder& b, const Node& node) {
  const ValueType type = b.type(node.inputs[0]);
  return [in = node.inputs, out = node.outputs, type,
          terms = std::vector<const void*>(node.inputs.size())](RunState& run) mutable {
    for (size_t i = 0; i < in.size(); ++i) terms[i] = run.at(in[i]);
    add_many(context_for(run, type.dtype), type.shape.num_elements(run.counts), terms,
             run.at(out[0]));
  };
}

// Per-token f32 arithmetic of losses: a few elements, on the calling thread.
Step make_token_math(StepBuilder& b, const Node& node) {
  const ValueType type = b.type(node.outputs[0]);
  const ValueType input = node.inputs.empty() ? type : b.type(node.inputs[0]);
  const auto& in = node.inputs;
  const auto& out = node.outputs;
  if (node.op == OpKind::kFill) {
    return [out, type, value = std::get<ScalarAttrs>(node.attrs).value](RunState& run) {
      float* y = run.at<float>(out[0]);
      std::fill(y, y + type.shape.num_elements(run.counts), value);
    };
  }
  return [in, out, input](RunState& run) {  // kReduceSum: 16 lanes, then halves
    ComputeScope scope;
    const float* x = run.at<float>(in[0]);
    const int64_t n = input.shape.num_elements(run.counts);
    float lanes[16] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i % 16] += x[i];
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    run.at<float>(out[0])[0] = lanes[0] + 0.0f;
  };
}

Step make_embedding(StepBuilder&, const Node& node) {
  return [in = node.inputs, out = node.outputs](RunState& run) {
    embedding_forward(run.context, run.counts.rows, run.at<int32_t>(in[0]),
                      run.buffers[static_cast<size_t>(in[1])]->view(), run.at(out[0]), *run.table);
  };
}

Step make_embedding_grad(StepBuilder& b, const Node& node) {
  return [in = node.inputs, d = b.dim(node.inputs[1], 1)](RunState& run) {
    embedding_grad(run.context, run.counts.rows, d, run.at<int32_t>(in[0]), run.at(in[1]),
                   run.at<float>(in[2]), *run.table);
  };
}

Step make_position_embedding(StepBuilder& b, const Node& node) {
  b.want_scratch(position_embedding_scratch_bytes(b.capacity().rows));
  if (node.op == OpKind::kPositionEmbedding) {
    return [in = node.inputs, out = node.outputs](RunState& run) {
      position_embedding_forward(run.context, run.counts.rows,
                                 run.buffers[static_cast<size_t>(in[0])]->view(), run.at(out[0]),
                                 *run.table, run.scratch);
    };
  }
  return [in = node.inputs, d = b.dim(node.inputs[0], 1)](RunState& run) {
    position_embedding_grad(run.context, run.counts.rows, d, run.at(in[0]), run.at<float>(in[1]),
                            *run.table, run.scratch);
  };
}

Step make_rows(StepBuilder& b, const Node& node) {
  const int64_t d = b.dim(node.inputs[0], 1);
  if (node.op == OpKind::kGatherRows) {
    return [in = node.inputs, out = node.outputs, d](RunState& run) {
      gather_rows(run.context, d, run.at(in[0]), run.at(out[0]), *run.table);
    };
  }
  return [in = node.inputs, out = node.outputs, d](RunState& run) {
    scatter_rows(run.context, run.counts.rows, d, run.at(in[0]), run.at(out[0]), *run.table);
  };
}

Step make_bias_grad(StepBuilder& b, const Node& node) {
  const bool by_picks = b.dim(node.inputs[0], 0) == kPicked;
  return [in = node.inputs, out_width = b.dim(node.inputs[0], 1), by_picks](RunState& run) {
    const RowTable& table = by_picks ? *run.pick_table : *run.table;
    bias_grad(run.context, out_width, run.at(in[0]), run.at<float>(in[1]), table);
  };
}

}  // namespace

Step make_simple_step(StepBuilder& b, const Node& node) {
  switch (node.op) {
    case OpKind::kEmbedding:
      return make_embedding(b, node);
    case OpKind::kEmbeddingGrad:
      return make_embedding_grad(b, node);
    case OpKind::kPositionEmbedding:
    case OpKind::kPositionEmbeddingGrad:
      return make_position_embedding(b, node);
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
      return make_norm(b, node);
    case OpKind::kRmsNormGrad:
    case OpKind::kLayerNormGrad:
      return make_norm_grad(b, node);
    case OpKind::kRope:
      return make_rope(b, node);
    case OpKind::kAttention:
      return make_attention(b, node);
    case OpKind::kAttentionGrad:
      return make_attention_grad(b, node);
    case OpKind::kSilu:
    case OpKind::kSiluGrad:
    case OpKind::kMul:
    case OpKind::kSiluMul:
    case OpKind::kSiluMulGrad:
    case OpKind::kGelu:
    case OpKind::kGeluGrad:
    case OpKind::kGeluMul:
    case OpKind::kGeluMulGrad:
      return make_elementwise(b, node);
    case OpKind::kAccumulate:  // the output lies where the first input does
    case OpKind::kAdd:
      return make_add(b, node);
    case OpKind::kScale:
    case OpKind::kSoftCap:
      return make_scale(b, node);
    case OpKind::kFill:
    case OpKind::kReduceSum:
      return make_token_math(b, node);
    case OpKind::kGatherRows:
    case OpKind::kScatterRows:
      return make_rows(b, node);
    case OpKind::kBiasGrad:
      return make_bias_grad(b, node);
    case OpKind::kSumOfSquares:
    case OpKind::kAdamw:
    case OpKind::kLion:
    case OpKind::kAdafactor:
    case OpKind::kMuon:
    case OpKind::kAdamw8bit:
    case OpKind::kEma:
      return make_optimizer_step(b, node);
    default:
      return {};
  }
}

const void* RunState::layout(size_t index) const {
  const LayoutNeed& need = (*needs)[index];
  if (!need.transient) return layouts[index];
  std::byte* destination = transient + need.transient_offset;
  buffers[static_cast<size_t>(need.param)]->make_layout(context, need.layout, destination);
  return destination;
}

bool StepBuilder::is_remade(ValueId param, Layout layout) const {
  if (repack_ == Repack::kNone || layout == Layout::kVector) return false;
  if (type(param).shape.dims.size() != 2) return false;
  return repack_ == Repack::kAll || is_quantised(type(param).dtype);
}

size_t StepBuilder::need(ValueId param, Layout layout) {
  const bool transient = is_remade(param, layout);
  if (!transient) {
    for (size_t i = 0; i < needs_.size(); ++i) {
      if (needs_[i].param == param && needs_[i].layout == layout && !needs_[i].transient) return i;
    }
  }
  LayoutNeed need{param, layout, transient, step_transient_};
  if (transient) {
    step_transient_ +=
        (CpuBuffer::layout_bytes(context_, layout, dim(param, 0), dim(param, 1)) + 63) / 64 * 64;
    transient_bytes_ = std::max(transient_bytes_, step_transient_);
  }
  needs_.push_back(need);
  return needs_.size() - 1;
}

size_t StepBuilder::keep(ValueId key, int64_t bytes) {
  kept_.push_back({key, bytes, index_, index_});
  return kept_.size() - 1;
}

std::optional<size_t> StepBuilder::find_kept(ValueId key) {
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i].key != key) continue;
    kept_[i].last = index_;
    return i;
  }
  return std::nullopt;
}

Result<Step> StepBuilder::make(const Node& node, int32_t index) {
  step_transient_ = 0;
  kept_picks_ = 0;
  index_ = index;
  Step step;
  switch (node.op) {
    case OpKind::kLinear:
      step = make_linear_step(*this, node);
      break;
    case OpKind::kLinearInputGrad:
      step = make_linear_grad_step(*this, node);
      break;
    case OpKind::kLinearWeightGrad:
      step = make_weight_grad_step(*this, node);
      break;
    case OpKind::kLoraUpGrad:
      step = make_lora_up_grad_step(*this, node);
      break;
    case OpKind::kHeadLogprob:
      step = make_head_step(*this, node);
      break;
    case OpKind::kHeadLogprobGrad:
      step = make_head_grad_step(*this, node);
      break;
    default:
      step = make_simple_step(*this, node);
      break;
  }
  if (!step) return unimplemented("cpu: no kernel for op " + std::string(op_info(node.op).name));
  return step;
}

}  // namespace mainspring::cpu

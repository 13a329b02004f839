#include "mainspring/exec/ref/op.h"

#include "mainspring/base/bf16.h"

namespace mainspring::ref {

double round_to(DType dtype, double x) {
  const float narrow = static_cast<float>(x);
  return dtype == DType::kBF16 ? to_f32(to_bf16(narrow)) : narrow;
}

double OpCall::rounded(double x) const { return round ? round_to(compute, x) : x; }

Value OpCall::parameter(size_t index) const {
  Value value = in(index);
  for (double& x : value.data) x = rounded(x);
  return value;
}

std::vector<Segment> OpCall::segments(const Value& x) const {
  const auto& segments = x.by_picks ? pick_table.segments : table.segments;
  if (!segments.empty()) return {segments.begin(), segments.end()};
  Segment all;
  all.num_rows = static_cast<int32_t>(x.rows());
  return {all};
}

Op find_op(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbedding:
      return embedding;
    case OpKind::kEmbeddingGrad:
      return embedding_grad;
    case OpKind::kPositionEmbedding:
      return position_embedding;
    case OpKind::kPositionEmbeddingGrad:
      return position_embedding_grad;
    case OpKind::kLinear:
      return linear;
    case OpKind::kLinearInputGrad:
      return linear_input_grad;
    case OpKind::kLinearWeightGrad:
      return linear_weight_grad;
    case OpKind::kLoraUpGrad:
      return lora_up_grad;
    case OpKind::kBiasGrad:
      return bias_grad;
    case OpKind::kRmsNorm:
      return rms_norm;
    case OpKind::kRmsNormGrad:
      return rms_norm_grad;
    case OpKind::kLayerNorm:
      return layer_norm;
    case OpKind::kLayerNormGrad:
      return layer_norm_grad;
    case OpKind::kRope:
      return rope;
    case OpKind::kAttention:
      return attention;
    case OpKind::kAttentionGrad:
      return attention_grad;
    case OpKind::kSilu:
      return silu;
    case OpKind::kSiluGrad:
      return silu_grad;
    case OpKind::kSiluMul:
      return silu_mul;
    case OpKind::kSiluMulGrad:
      return silu_mul_grad;
    case OpKind::kGelu:
      return gelu;
    case OpKind::kGeluGrad:
      return gelu_grad;
    case OpKind::kGeluMul:
      return gelu_mul;
    case OpKind::kGeluMulGrad:
      return gelu_mul_grad;
    case OpKind::kSoftCap:
      return soft_cap;
    case OpKind::kMul:
      return mul;
    case OpKind::kAdd:
      return add;
    case OpKind::kScale:
      return scale;
    case OpKind::kFill:
      return fill;
    case OpKind::kReduceSum:
      return reduce_sum;
    case OpKind::kGatherRows:
      return gather_rows;
    case OpKind::kScatterRows:
      return scatter_rows;
    case OpKind::kHeadLogprob:
      return head_logprob;
    case OpKind::kHeadLogprobGrad:
      return head_logprob_grad;
    case OpKind::kAccumulate:
      return add;
    case OpKind::kSumOfSquares:
      return sum_of_squares;
    case OpKind::kAdamw:
      return adamw;
    case OpKind::kLion:
      return lion;
    case OpKind::kAdafactor:
      return adafactor;
    case OpKind::kMuon:
      return muon;
    case OpKind::kAdamw8bit:
      return adamw_8bit;
    case OpKind::kEma:
      return ema;
    case OpKind::kInput:
    case OpKind::kParam:
    case OpKind::kState:
    case OpKind::kNumOps:
      return nullptr;
  }
  return nullptr;
}

}  // namespace mainspring::ref

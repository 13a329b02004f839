// What an op of the reference executor is: a function of a call, found in one table.
//
// The one idea: an op reads its inputs and fills its outputs with plain loops in f64. Outputs come
// shaped and zeroed, so padding rows are zeros unless an op writes them; an output that updates a
// state in place starts as a copy of that state.
#pragma once

#include <functional>
#include <vector>

#include "mainspring/exec/kv_view.h"
#include "mainspring/exec/ref/value.h"
#include "mainspring/ir/graph.h"
#include "mainspring/ir/row_table.h"

namespace mainspring::ref {

struct OpCall {
  const Node& node;
  const std::vector<const Value*>& inputs;
  std::vector<Value>& outputs;
  const RowTable& table;
  const RowTable& pick_table;
  const KvView* kv = nullptr;
  DType compute = DType::kF32;
  bool round = false;  // round what ops.h rounds, to the compute dtype

  const Value& in(size_t index) const { return *inputs[index]; }
  Value& out(size_t index) const { return outputs[index]; }
  template <typename T>
  const T& attrs() const {
    return std::get<T>(node.attrs);
  }
  /// x as it crosses a rounding point of the op: itself unless `round`.
  double rounded(double x) const;
  /// A parameter as it is used: rounded like that.
  Value parameter(size_t index) const;
  /// The segments whose rows `x` has: the table's, or the pick table's if `x` is by picks. A table
  /// without any makes every row plain: one segment of all rows, in no slot, at position 0.
  std::vector<Segment> segments(const Value& x) const;
};

using Op = void (*)(const OpCall& call);

/// Null if the reference has no such op (sources have none).
Op find_op(OpKind kind);

/// Rounds to f32 or bf16 and widens again.
double round_to(DType dtype, double x);

// Ops by group; each file computes what exec/cpu/ops.h says of the function of that name.
void embedding(const OpCall& call);                // embedding.cc
void embedding_grad(const OpCall& call);           // embedding.cc
void position_embedding(const OpCall& call);       // embedding.cc
void position_embedding_grad(const OpCall& call);  // embedding.cc
void linear(const OpCall& call);                   // linear.cc
void linear_input_grad(const OpCall& call);        // linear.cc
void linear_weight_grad(const OpCall& call);       // linear.cc
void lora_up_grad(const OpCall& call);             // linear.cc
void bias_grad(const OpCall& call);                // linear.cc
void rms_norm(const OpCall& call);                 // norm.cc
void rms_norm_grad(const OpCall& call);            // norm.cc
void layer_norm(const OpCall& call);               // norm.cc
void layer_norm_grad(const OpCall& call);          // norm.cc
void rope(const OpCall& call);                     // rope.cc
void attention(const OpCall& call);                // attention.cc
void attention_grad(const OpCall& call);           // attention.cc
void silu(const OpCall& call);                     // elementwise.cc
void silu_grad(const OpCall& call);                // elementwise.cc
void silu_mul(const OpCall& call);                 // elementwise.cc
void silu_mul_grad(const OpCall& call);            // elementwise.cc
void gelu(const OpCall& call);                     // elementwise.cc
void gelu_grad(const OpCall& call);                // elementwise.cc
void gelu_mul(const OpCall& call);                 // elementwise.cc
void gelu_mul_grad(const OpCall& call);            // elementwise.cc
void soft_cap(const OpCall& call);                 // elementwise.cc
void mul(const OpCall& call);                      // elementwise.cc
void add(const OpCall& call);                      // elementwise.cc
void scale(const OpCall& call);                    // elementwise.cc
void fill(const OpCall& call);                     // elementwise.cc
void reduce_sum(const OpCall& call);               // elementwise.cc
void gather_rows(const OpCall& call);              // rows.cc
void scatter_rows(const OpCall& call);             // rows.cc
void head_logprob(const OpCall& call);             // head.cc
void head_logprob_grad(const OpCall& call);        // head.cc
void sum_of_squares(const OpCall& call);           // optimizer.cc
void adamw(const OpCall& call);                    // optimizer.cc
void lion(const OpCall& call);                     // optimizer.cc
void adafactor(const OpCall& call);                // optimizer.cc
void muon(const OpCall& call);                     // muon.cc
void adamw_bf16(const OpCall& call);               // compact_states.cc
void lion_bf16(const OpCall& call);                // compact_states.cc
void adamw_8bit(const OpCall& call);               // compact_states.cc
void ema(const OpCall& call);                      // compact_states.cc

}  // namespace mainspring::ref

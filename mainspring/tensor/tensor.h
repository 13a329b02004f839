// Tensor: a handle to a value of a graph being traced, and the op functions: all that model code
// sees.
//
// The one idea: calling an op function appends a node; nothing is computed. A wrong shape throws
// while tracing, with the op, what was expected and the layer path. Axis letters are in
// docs/glossary.md.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/ir/graph.h"

namespace mainspring {

/// A model author's mistake, found while tracing.
class ShapeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Tracer;

/// A traced value; valid as long as its Tracer.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tracer* tracer, ValueId value) : tracer_(tracer), value_(value) {}
  ValueId value() const { return value_; }
  Tracer& tracer() const { return *tracer_; }
  const ValueType& type() const;
  const Shape& shape() const { return type().shape; }
  bool is_valid() const { return tracer_ != nullptr; }

 private:
  Tracer* tracer_ = nullptr;
  ValueId value_ = kNoValue;
};

/// Owns the graph while it grows, and the current layer path.
class Tracer {
 public:
  explicit Tracer(DType compute) : graph_(compute) {}

  Graph& graph() { return graph_; }
  Graph release() { return std::move(graph_); }

  /// Sources. A second call with the same name returns the same tensor.
  /// Errors: throws ShapeError if the name exists with another type.
  Tensor input(const std::string& name, ValueType type);
  Tensor param(const std::string& name, ValueType type);
  Tensor state(const std::string& name, ValueType type);

  void output(const std::string& name, Tensor value) { graph_.add_output(name, value.value()); }

  /// Appends a node at the current path. Errors: throws ShapeError.
  std::vector<Tensor> node(OpKind op, std::vector<Tensor> inputs, Attrs attrs);

  /// Within a Scope, nodes get "parent.name" as path. A scope with a region >= 0 marks its nodes
  /// for recomputation (autodiff's checkpoint()).
  class Scope {
   public:
    Scope(Tracer& tracer, std::string_view name, int32_t region = -1);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Tracer& tracer_;
    std::string saved_path_;
    int32_t saved_region_;
  };

  const std::string& path() const { return path_; }
  void set_backward(bool backward) { backward_ = backward; }

 private:
  Tensor source(OpKind op, const std::string& name, ValueType type);

  Graph graph_;
  std::string path_;
  int32_t region_ = -1;
  bool backward_ = false;
  std::vector<std::pair<std::string, Tensor>> sources_;
};

// ---- forward ops
// -----------------------------------------------------------------------------------

/// Rows of a table by token.  Shapes: tokens i32(rows); table (v, d); result (rows, d).
Tensor embedding(const Tensor& tokens, const Tensor& table);

/// One adapter on one output of a linear.  Shapes: a (rank, in), b (out, rank).
struct LoraTensors {
  LoraAttrs attrs;
  Tensor a;
  Tensor b;
};

/// y_i = x W_i^T (+ bias_i) (+ adapters), for several weights that share the input x.
/// Shapes: x (rows, in); weights (out_i, in); biases (out_i) or empty; results (rows, out_i).
/// f32_output keeps logits in f32.
/// Errors: throws ShapeError.
struct LinearOptions {
  std::vector<Tensor> biases = {};
  std::vector<LoraTensors> adapters = {};
  bool f32_output = false;
};
std::vector<Tensor> linear(const Tensor& x, const std::vector<Tensor>& weights,
                           const LinearOptions& options = {});

/// Learned positions: the table's row of each row's absolute position.
/// Shapes: table (positions, d); result (rows, d).
Tensor position_embedding(const Tensor& table);

/// Root-mean-square norm over groups of w's length along the last axis:
///   y = x / sqrt(mean(x^2) + eps) * w,  with `plus_one` times (1 + w).
/// Shapes: x (rows, k * width); w (width); result like x. Kept in f32, rounded once.
/// Source: Zhang & Sennrich 2019, arXiv:1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& w, float eps, bool plus_one = false);

/// Layer norm over the last axis: y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b.
/// Shapes: x (rows, d); w, b (d); result like x. Kept in f32, rounded once.
/// Source: Ba, Kiros & Hinton 2016, arXiv:1607.06450.
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);

/// Rotary position embedding by the row's absolute position, pairing i with i + n for i < n; a
/// head's elements from 2n on pass through.
/// Shapes: x (rows, heads * c); table f32(positions, n <= c/2, 2) of cos and sin; result like x.
/// `first_row`: the table's row of position 0, where one table holds several.
/// Source: Su et al. 2021, arXiv:2104.09864.
Tensor rope(const Tensor& x, const Tensor& table, int64_t heads, int64_t first_row = 0);

/// Causal attention within each sequence (window > 0: sliding).
/// Shapes: q (rows, h*c); k, v (rows, kv*c); result (rows, h*c).
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionAttrs& attrs);

/// x * sigmoid(x).
Tensor silu(const Tensor& x);
/// The tanh form of x Phi(x).  Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
Tensor gelu(const Tensor& x);
Tensor mul(const Tensor& a, const Tensor& b);
/// The sum in f32 in the order given, rounded once.
Tensor add(const std::vector<Tensor>& terms);

/// Rows that reach the head.  Shapes: x (rows, d); result (picked, d).
Tensor gather_rows(const Tensor& x);

/// cap * tanh(x / cap) of f32 logits, for sampling: it has no gradient of its own.
Tensor soft_cap(const Tensor& x, float cap);

/// Log-probability of each target without holding [picked, v]; of capped logits if softcap > 0.
/// Shapes: x (picked, d); head (v, d); targets i32(picked); result f32(picked).
Tensor head_logprob(const Tensor& x, const Tensor& head, const Tensor& targets,
                    float softcap = 0.0f);

/// The same, with the log of each row's normaliser, log sum exp(logits).
/// Shapes: targets i32(picked) or, several of each row, i32(picked, k); logprob f32 of that shape,
/// lse f32(picked). Gradients that are not 0 belong to distinct targets of a row.
struct HeadOutputs {
  Tensor logprob;
  Tensor lse;
};
HeadOutputs head_outputs(const Tensor& x, const Tensor& head, const Tensor& targets,
                         float softcap = 0.0f);

/// factor * x, of f32 values or activations.
Tensor scale(const Tensor& x, float factor);
/// The sum of all elements, f32(1), in 16 lanes and a fixed tree.
Tensor reduce_sum(const Tensor& x);
/// f32(picked) of one value.
Tensor fill_picked(Tracer& tracer, float value);

}  // namespace mainspring

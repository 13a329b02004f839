// Layers as functions over (params, x).
//
// The one idea: a layer is a function of tensors; a linear takes its weights, biases and adapters
// as data, so LoRA is never a wrapper. Names of parameters are Hugging Face's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mainspring/tensor/tensor.h"

namespace mainspring::nn {

/// One adapter that a traced model serves or trains: which linears it touches and its slot.
struct AdapterSpec {
  int32_t slot = 0;
  int64_t rank = 16;
  float scale = 2.0f;  // alpha / rank
  float dropout = 0.0f;
  uint64_t dropout_seed = 0;
  std::string prefix;  // of its params: "adapter0/"
  /// Rank and scale may differ per module (rank_pattern, alpha_pattern of PEFT).
  struct Module {
    int64_t rank = 16;
    float scale = 2.0f;
  };
  std::vector<std::pair<std::string, Module>>
      modules;  // "model.layers.0.self_attn.q_proj" -> sizes
  const Module* find(const std::string& module) const;
};

/// Where a layer gets its parameters and adapters.
class Params {
 public:
  /// The stored dtype of a parameter by its full name.
  using DTypeOf = std::function<DType(const std::string& name)>;

  Params(Tracer& tracer, DTypeOf dtype_of, std::vector<AdapterSpec> adapters)
      : tracer_(tracer), dtype_of_(std::move(dtype_of)), adapters_(std::move(adapters)) {}

  Tracer& tracer() const { return tracer_; }
  /// "name" with a shape, as a param of its stored dtype.
  Tensor get(const std::string& name, std::vector<int64_t> dims) const;
  const std::vector<AdapterSpec>& adapters() const { return adapters_; }

 private:
  Tracer& tracer_;
  DTypeOf dtype_of_;
  std::vector<AdapterSpec> adapters_;
};

/// One of several linears that share an input.
struct LinearSpec {
  std::string module;  // "model.layers.0.self_attn.q_proj"
  int64_t out = 0;
  bool bias = false;
};

/// y_i = x W_i^T (+ b_i) (+ adapters).  Shapes: x (rows, in); results (rows, out_i).
/// Biases are all or none among `specs`. Adapters appear in slot order, outputs in the order of
/// `specs`.
std::vector<Tensor> linears(const Params& params, const Tensor& x,
                            const std::vector<LinearSpec>& specs);

/// The key of a layer's random numbers: seed and path hashed with FNV-1a (docs/exactness.md, rule
/// 18).
uint64_t random_key(uint64_t seed, const std::string& path);

}  // namespace mainspring::nn

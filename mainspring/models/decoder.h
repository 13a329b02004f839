// The dense decoder: every family as one function over a config. Says nothing of devices.
#pragma once

#include <functional>

#include "mainspring/models/config.h"
#include "mainspring/nn/layers.h"
#include "mainspring/tensor/tensor.h"

namespace mainspring {

/// Names of the sources a traced decoder binds beside the model's parameters.
inline constexpr const char* kTokensInput = "tokens";         // i32(rows)
inline constexpr const char* kTargetsInput = "targets";       // i32(picked)
inline constexpr const char* kRopeTableParam = "rope.table";  // as rope_table_shape() says

/// Sees values (rows, d) of the forward pass as they are traced: "embedding", "layers.3.attention"
/// and "layers.3.mlp" (what each adds), "layers.3" (the residual stream after the layer).
using DecoderTap = std::function<void(const std::string& name, const Tensor& value)>;

/// Tokens to the last norm's output at the picked rows. Each layer is one recomputation region.
/// Shapes: result (picked, d). `rope_positions` is the length of the bound rope table.
Tensor decoder_hidden(const nn::Params& params, const ModelConfig& config, int64_t rope_positions,
                      const DecoderTap& tap = {});

/// The head's matrix: lm_head.weight, or the embedding when tied.  Shape (v, d).
Tensor decoder_head(const nn::Params& params, const ModelConfig& config);

/// Logits of the picked rows, capped where the model caps them.  Shapes: hidden (picked, d); result
/// f32(picked, v).
Tensor decoder_logits(const nn::Params& params, const ModelConfig& config, const Tensor& hidden);

/// Log-probabilities of targets i32(picked) under the same logits.  Shapes: hidden (picked, d);
/// result f32(picked).
Tensor decoder_logprob(const nn::Params& params, const ModelConfig& config, const Tensor& hidden,
                       const Tensor& targets);
/// The same with the logits' log-normalisers.
HeadOutputs decoder_head_outputs(const nn::Params& params, const ModelConfig& config,
                                 const Tensor& hidden, const Tensor& targets);

/// Full names of the linears that LoRA may target, in forward order; `targets` are suffixes such as
/// "q_proj" (empty: all). Errors: invalid argument with the nearest known suffix.
Result<std::vector<std::string>> lora_modules(const ModelConfig& config,
                                              const std::vector<std::string>& targets);

/// (out, in) of a linear by its full module name. Precondition: it exists.
std::pair<int64_t, int64_t> linear_shape(const ModelConfig& config, const std::string& module);

/// Errors: invalid argument for a LoRA rank above the smaller side of the smallest of `modules`,
/// where more ranks add nothing; `name` is what the message calls the rank.
Status check_lora_rank(const ModelConfig& config, const std::vector<std::string>& modules,
                       int64_t rank, const std::string& name);

}  // namespace mainspring

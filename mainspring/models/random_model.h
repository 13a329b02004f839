// A model from its shape alone: random weights, for training from nothing.
//
// The one idea: a weight's value is a function of (seed, parameter name, element), so it does not
// depend on threads, on the other parameters or on the machine (docs/exactness.md, rule 18).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/mup.h"

namespace mainspring {

enum class InitScheme {
  kScaled,  // normal, and what ends a residual branch (o_proj, down_proj) divided by sqrt(2
            // layers): GPT-2's own
  kNormal,  // normal(0, std) everywhere
  kFanIn,   // linears normal(0, 1 / sqrt(in)), tables normal(0, std)
};

/// "scaled", "normal", "fan_in". Errors: invalid argument with the nearest name.
Result<InitScheme> parse_init_scheme(std::string_view name);

struct InitOptions {
  uint64_t seed = 0;
  InitScheme scheme = InitScheme::kScaled;
  double std = 0.02;
  MupOptions mup = {};        // std is that of the base's width
  DType dtype = DType::kF32;  // kF32 or kBF16: what the weights are rounded to and kept in
  int num_threads = 1;        // changes no bit
};

/// The weights of `config`: norms are one, biases zero, the rest normal by the scheme. Box
/// and Muller's transform of two uniforms of 24 bits, in f64, rounded
/// once to f32.
/// Cost: about 60 ns a weight and thread. Source of "scaled": Radford et al. 2019 (GPT-2), 2.3.
TensorSet random_weights(const ModelConfig& config, const InitOptions& options);

/// `config` with the tokenizer's number of tokens for a vocabulary of 0, and its end-of-text token
/// if it has none. Errors: as make_random_model.
Result<ModelConfig> complete_config(ModelConfig config, const TokenizerSource& tokenizer);

/// A model of `config` with random weights and the given tokenizer, whose end-of-text token becomes
/// the config's if it has none. Errors: invalid argument for a config that no model can have, or a
/// vocabulary smaller than the tokenizer's.
Result<std::shared_ptr<const LoadedModel>> make_random_model(ModelConfig config,
                                                             const InitOptions& options,
                                                             TokenizerSource tokenizer);

/// A tokenizer from a tokenizer.json, a folder with one, or a .gguf file, as JSON; "": the byte
/// tokenizer (text/byte_tokenizer.h); "none": no tokenizer, tokens are numbers. Errors: not found;
/// those of the parts.
Result<TokenizerSource> read_tokenizer_source(const std::string& path);

}  // namespace mainspring

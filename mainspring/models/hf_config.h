// Hugging Face's config.json and generation_config.json, both ways.
//
// The one idea: the three supported classes read a known set of fields; each of these is either
// carried into ModelConfig or must have the value that changes nothing. Fields that the classes do
// not read are passed over, as they are there.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"
#include "mainspring/models/config.h"
#include "mainspring/models/loaded_model.h"

namespace mainspring {

/// Heads the model type of a model that computes more than its family's class in transformers (a
/// cap on the logits of a Llama). transformers does not know such a type, so nothing but this
/// program computes the model, and it as it was trained (docs/adr/0010).
inline constexpr std::string_view kOwnModelType = "mainspring_";

/// True if no class of transformers computes `config`.
bool needs_own_class(const ModelConfig& config);

/// Reads config.json as transformers 4 and 5 write it (rope_theta and rope_scaling, or
/// rope_parameters). Errors: unimplemented for another architecture (with the supported ones) and
/// for a field whose value would change results and is not handled; invalid argument for missing
/// fields and wrong types; each with `source` and the field.
Result<ModelConfig> parse_hf_config(std::string_view text, std::string_view source);

/// config.json of `config`, readable by transformers 4 and 5. `dtype`: "float32" or "bfloat16".
/// Errors: unimplemented for what config.json cannot say (rope factors that are no known scaling).
Result<Json> make_hf_config(const ModelConfig& config, std::string_view dtype);

/// Errors: invalid argument with source and field.
Result<GenerationConfig> parse_generation_config(std::string_view text, std::string_view source);

/// generation_config.json from what is known: eos, bos, pad and the sampling suggestions.
Json make_generation_config(const ModelConfig& config, const GenerationConfig& generation);

}  // namespace mainspring

// GPT-2's config.json: fields of its own names, both ways.
#pragma once

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"
#include "mainspring/models/config.h"

namespace mainspring {

/// What GPT2LMHeadModel computes. Its dropout probabilities are passed over: there is no dropout
/// here but LoRA's own. Errors: unimplemented for a field that would change results and is not
/// handled; invalid argument for missing fields and wrong types; each with source and field.
Result<ModelConfig> parse_gpt2_config(const JsonObject& json);

/// Errors: unimplemented if GPT2LMHeadModel does not compute `config`.
Result<Json> make_gpt2_config(const ModelConfig& config);

}  // namespace mainspring

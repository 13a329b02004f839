// config.json and generation_config.json of a model, as transformers 4 and 5 read them.
#include <cmath>

#include "mainspring/io/json.h"
#include "mainspring/models/hf_config.h"
#include "mainspring/models/hf_config_gpt2.h"
#include "mainspring/models/hf_family.h"

namespace mainspring {
namespace {

/// An integer stays one, as the tools that read it print it.
Json eos_json(const std::vector<int32_t>& tokens) {
  if (tokens.empty()) return Json(nullptr);
  if (tokens.size() == 1) return Json(tokens[0]);
  return Json(tokens);
}

Json token_json(int32_t token) { return token < 0 ? Json(nullptr) : Json(token); }

Result<Json> rope_scaling_json(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      return Json(nullptr);
    case RopeScaling::Kind::kLinear:
      return Json{{"rope_type", "linear"}, {"factor", json_float(scaling.factor)}};
    case RopeScaling::Kind::kLlama3:
      return Json{{"rope_type", "llama3"},
                  {"factor", json_float(scaling.factor)},
                  {"low_freq_factor", json_float(scaling.low_freq_factor)},
                  {"high_freq_factor", json_float(scaling.high_freq_factor)},
                  {"original_max_position_embeddings", scaling.original_context}};
    case RopeScaling::Kind::kFactors:
      return unimplemented(
          "config.json has no field for rope factors per pair (rope_freqs.weight)");
  }
  return internal_error("unknown rope scaling");
}

/// A fraction whose product with the head width truncates to the rotary width, as readers compute
/// it.
double partial_rotary_factor(const ModelConfig& config) {
  const auto width = static_cast<double>(config.head_width);
  const auto rotary = static_cast<double>(rotary_width(config));
  const double factor = rotary / width;
  return std::trunc(width * factor) < rotary ? std::nextafter(factor, 1.0) : factor;
}

Json layer_types_json(const ModelConfig& config) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < config.layers; ++layer)
    types.push_back(layer_window(config, layer) > 0 ? "sliding_attention" : "full_attention");
  return types;
}

/// Layers before the first windowed one, for the releases that read no layer_types.
int64_t first_windowed_layer(const ModelConfig& config) {
  int64_t layer = 0;
  while (layer < config.layers && layer_window(config, layer) == 0) ++layer;
  return layer;
}

Status write_window(const HfFamily& family, const ModelConfig& config, Json& json) {
  switch (family.window) {
    case WindowRule::kNone:
      if (config.window == 0) return Status();
      return unimplemented(std::string(family.architecture) + " has no field for a sliding window");
    case WindowRule::kEveryLayer:
      if (!config.windowed_layers.empty()) {
        return unimplemented(std::string(family.architecture) +
                             " has no field for windows on some layers");
      }
      json["sliding_window"] = config.window > 0 ? Json(config.window) : Json(nullptr);
      return Status();
    case WindowRule::kSwitched:
      json["use_sliding_window"] = config.window > 0;
      if (config.window == 0) return Status();
      json["sliding_window"] = config.window;
      json["max_window_layers"] = first_windowed_layer(config);
      json["layer_types"] = layer_types_json(config);
      return Status();
    case WindowRule::kPattern:
      json["sliding_window"] = config.window > 0 ? Json(config.window) : Json(nullptr);
      json["layer_types"] = layer_types_json(config);
      return Status();
  }
  return internal_error("unknown window rule");
}

Json softcap_json(float cap) { return cap > 0.0f ? json_float(cap) : Json(nullptr); }

/// What only Gemma's classes say, or that the config is none of theirs.
Status write_gemma(const HfFamily& family, const ModelConfig& config, Json& json) {
  const bool is_gemma = config.norm_plus_one && config.sandwich_norms && config.scaled_embeddings &&
                        config.activation == MlpActivation::kGeluTanh && config.query_scalar > 0.0f;
  const bool has_any = config.norm_plus_one || config.sandwich_norms || config.scaled_embeddings ||
                       config.activation != MlpActivation::kSilu || config.query_scalar > 0.0f ||
                       config.final_softcap > 0.0f || config.local_rope_theta > 0.0f;
  if (family.is_gemma ? !is_gemma : has_any)
    return unimplemented(std::string(family.architecture) + " computes another layer");
  if (config.attention_softcap > 0.0f && !family.has_attention_softcap)
    return unimplemented(std::string(family.architecture) + " has no cap on attention scores");
  json[family.is_gemma ? "hidden_activation" : "hidden_act"] =
      family.is_gemma ? "gelu_pytorch_tanh" : "silu";
  if (!family.is_gemma) return Status();
  json["query_pre_attn_scalar"] = json_float(config.query_scalar);
  if (family.has_attention_softcap)
    json["attn_logit_softcapping"] = softcap_json(config.attention_softcap);
  json["final_logit_softcapping"] = softcap_json(config.final_softcap);
  if (family.default_local_theta > 0.0f)
    json["rope_local_base_freq"] = json_float(config.local_rope_theta);
  return Status();
}

}  // namespace

namespace {

Result<Json> make_decoder_config(const HfFamily& family, const ModelConfig& config) {
  if (config.layer_norm || config.learned_positions || !config.gated_mlp)
    return unimplemented(std::string(family.architecture) + " computes another layer");
  // A bias that the family's class has no field for cannot be said.
  const bool says_attention =
      family.has_attention_bias && config.attention_bias == config.output_bias;
  const bool implied_attention =
      config.attention_bias == family.qkv_bias_always && !config.output_bias;
  if (!says_attention && !implied_attention) {
    return unimplemented(std::string(family.architecture) +
                         " has no field for these attention biases");
  }
  if (config.mlp_bias && !family.has_mlp_bias) {
    return unimplemented(std::string(family.architecture) + " has no field for MLP biases");
  }
  Json json = {{"architectures", Json::array({family.architecture})},
               {"model_type", family.model_type},
               {"hidden_size", config.d},
               {"intermediate_size", config.ffn},
               {"num_hidden_layers", config.layers},
               {"num_attention_heads", config.query_heads},
               {"num_key_value_heads", config.kv_heads},
               {"head_dim", config.head_width},
               {"vocab_size", config.vocabulary},
               {"max_position_embeddings", config.context_length},
               {"rms_norm_eps", json_float(config.rms_eps)},
               {"rope_theta", json_float(config.rope_theta)}};
  MS_ASSIGN_OR_RETURN(json["rope_scaling"], rope_scaling_json(config.rope_scaling));
  if (family.has_partial_rotary) {
    json["partial_rotary_factor"] = partial_rotary_factor(config);
  } else if (rotary_width(config) != config.head_width) {
    return unimplemented(std::string(family.architecture) +
                         " has no field for a partial rotary width");
  }
  MS_RETURN_IF_ERROR(write_window(family, config, json));
  MS_RETURN_IF_ERROR(write_gemma(family, config, json));
  if (family.has_attention_bias) json["attention_bias"] = config.attention_bias;
  if (family.has_mlp_bias) json["mlp_bias"] = config.mlp_bias;
  json["attention_dropout"] = 0.0;
  return json;
}

}  // namespace

bool needs_own_class(const ModelConfig& config) {
  const HfFamily* family = find_hf_family(config.family);
  return config.final_softcap > 0.0f && family != nullptr && !family->is_gemma;
}

Result<Json> make_hf_config(const ModelConfig& config, std::string_view dtype) {
  const HfFamily* family = find_hf_family(config.family);
  if (family == nullptr) return invalid_argument("unknown model family '" + config.family + "'");
  ModelConfig of_class = config;
  if (needs_own_class(config)) of_class.final_softcap = 0.0f;
  MS_ASSIGN_OR_RETURN(Json json, family->is_gpt2 ? make_gpt2_config(of_class)
                                                 : make_decoder_config(*family, of_class));
  if (needs_own_class(config)) {
    json["architectures"] = Json::array({"Mainspring" + std::string(family->architecture)});
    json["model_type"] = std::string(kOwnModelType) + std::string(family->model_type);
    json["final_logit_softcapping"] = json_float(config.final_softcap);
  }
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["bos_token_id"] = token_json(config.bos_token);
  json["eos_token_id"] = eos_json(config.eos_tokens);
  json["pad_token_id"] = token_json(config.pad_token);
  json["torch_dtype"] = dtype;
  json["use_cache"] = true;
  return json;
}

Json make_generation_config(const ModelConfig& config, const GenerationConfig& generation) {
  Json json = {{"bos_token_id", token_json(config.bos_token)},
               {"eos_token_id", eos_json(generation.eos_tokens.empty() ? config.eos_tokens
                                                                       : generation.eos_tokens)},
               {"pad_token_id", token_json(config.pad_token)}};
  if (generation.do_sample) json["do_sample"] = *generation.do_sample;
  if (generation.temperature) json["temperature"] = json_float(*generation.temperature);
  if (generation.top_k) json["top_k"] = *generation.top_k;
  if (generation.top_p) json["top_p"] = json_float(*generation.top_p);
  if (generation.min_p) json["min_p"] = json_float(*generation.min_p);
  if (generation.repetition_penalty)
    json["repetition_penalty"] = json_float(*generation.repetition_penalty);
  return json;
}

}  // namespace mainspring

#include "mainspring/models/hf_config.h"

#include <cmath>
#include <limits>

#include "mainspring/base/nearest.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

/// What sets the three classes apart (modeling_llama.py, modeling_qwen2.py, modeling_qwen3.py of
/// transformers).
struct Family {
  std::string_view name;  // also model_type
  std::string_view architecture;
  bool qkv_bias_always;     // Qwen2: no field says so
  bool has_attention_bias;  // reads attention_bias (for q, k, v and o alike)
  bool has_mlp_bias;        // reads mlp_bias
  bool qk_norm;
  int64_t default_head_width;  // 0: d / h
};
constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", false, true, true, false, 0},
    {"qwen2", "Qwen2ForCausalLM", true, false, false, false, 0},
    {"qwen3", "Qwen3ForCausalLM", false, true, false, true, 128},
};

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.architecture);
  return names;
}

Status unknown_architecture(const JsonObject& json, std::string_view key, const std::string& got) {
  std::string known;
  for (const std::string& name : architectures()) known += (known.empty() ? "" : ", ") + name;
  return unimplemented(json.where(key) + ": architecture '" + got +
                       "' is not supported; supported are " + known +
                       " (nearest: " + nearest_name(got, architectures()) + ")");
}

Result<const Family*> find_family(const JsonObject& json) {
  if (json.has("architectures")) {
    MS_ASSIGN_OR_RETURN(const std::vector<std::string> names, json.get_strings("architectures"));
    if (names.size() != 1)
      return json.error("architectures", "expected one name, got " + std::to_string(names.size()));
    for (const Family& family : kFamilies) {
      if (names[0] != family.architecture) continue;
      MS_ASSIGN_OR_RETURN(const std::string type,
                          json.get_string_or("model_type", std::string(family.name)));
      if (type == family.name) return &family;
      return json.error("model_type", "expected \"" + std::string(family.name) + "\" with " +
                                          names[0] + ", got \"" + type + "\"");
    }
    return unknown_architecture(json, "architectures", names[0]);
  }
  MS_ASSIGN_OR_RETURN(const std::string type, json.get_string("model_type"));
  for (const Family& family : kFamilies) {
    if (type == family.name) return &family;
  }
  return unknown_architecture(json, "model_type", type);
}

Status refuse(const JsonObject& json, std::string_view key, const std::string& why) {
  return unimplemented(json.where(key) + ": " + why);
}

/// Fields that change results and are not handled: each may only be absent, null, or the value that
/// does nothing.
Status refuse_unhandled_fields(const JsonObject& json) {
  struct Neutral {
    std::string_view key;
    Json value;
  };
  const Neutral neutral[] = {
      {"attention_dropout", 0},
      {"partial_rotary_factor", 1},
      {"rope_interleaved", false},
      {"quantization_config", {}},
      {"is_causal", true},
      {"use_bidirectional_attention", false},
      {"is_encoder_decoder", false},
      {"add_cross_attention", false},
      {"residual_dropout", 0},
      {"hidden_dropout", 0},
      {"embedding_dropout", 0},
      {"logits_scaling", 1},
      {"residual_multiplier", 1},
      {"embedding_multiplier", 1},
      {"attention_multiplier", {}},
      {"final_logit_softcapping", {}},
      {"attn_logit_softcapping", {}},
      {"clip_qkv", {}},
      {"num_experts", {}},
      {"num_local_experts", {}},
  };
  for (const Neutral& field : neutral) {
    const Json* value = json.find(field.key);
    if (value == nullptr || *value == field.value) continue;
    const std::string expected = field.value.is_null() ? "absent" : json_text(field.value);
    return refuse(json, field.key,
                  json_text(*value).substr(0, 200) + " is not supported, only " + expected);
  }
  for (const std::string_view key : {"hidden_act", "hidden_activation"}) {
    MS_ASSIGN_OR_RETURN(const std::string activation, json.get_string_or(key, "silu"));
    if (activation != "silu" && activation != "swish") {
      return refuse(json, key, "'" + activation + "' is not supported, only silu");
    }
  }
  return Status();
}

/// Sliding windows are accepted only where they are switched off.
Status refuse_sliding_window(const JsonObject& json, const Family& family, int64_t layers) {
  if (json.has("layer_types")) {
    MS_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.get_strings("layer_types"));
    for (const std::string& type : types) {
      if (type != "full_attention") {
        return refuse(json, "layer_types", "'" + type + "' is not supported, only full_attention");
      }
    }
    return Status();
  }
  if (!json.has("sliding_window")) return Status();
  // Only the Qwen classes have the switch; Llama's does not read sliding_window, so a value is a
  // mistake.
  MS_ASSIGN_OR_RETURN(const bool use,
                      json.get_bool_or("use_sliding_window", family.name == "llama"));
  MS_ASSIGN_OR_RETURN(const int64_t from_layer,
                      json.get_int_or("max_window_layers", family.name == "llama" ? 0 : 28));
  if (!use || from_layer >= layers) return Status();
  return refuse(json, "sliding_window", "sliding-window attention is not supported");
}

Result<float> get_float(const JsonObject& json, std::string_view key) {
  MS_ASSIGN_OR_RETURN(const double value, json.get_number(key));
  if (!std::isfinite(value) ||
      std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
    return json.error(key, "does not fit a 32-bit float");
  }
  return static_cast<float>(value);
}

/// `rope` is rope_scaling or rope_parameters; transformers writes the type as rope_type, once as
/// type.
Status read_rope_scaling(const JsonObject& json, const JsonObject& rope, ModelConfig& config) {
  const std::string_view type_key = rope.has("rope_type") ? "rope_type" : "type";
  MS_ASSIGN_OR_RETURN(const std::string type, rope.get_string_or(type_key, "default"));
  if (const Json* partial = rope.find("partial_rotary_factor");
      partial != nullptr && *partial != 1) {
    return refuse(rope, "partial_rotary_factor", json_text(*partial) + " is not supported, only 1");
  }
  if (rope.has("rope_theta")) {
    MS_ASSIGN_OR_RETURN(config.rope_theta, get_float(rope, "rope_theta"));
  }
  if (type == "default") return Status();
  RopeScaling& scaling = config.rope_scaling;
  if (type != "linear" && type != "llama3") {
    return refuse(rope, type_key,
                  "'" + type + "' is not supported, only default, linear and llama3");
  }
  MS_ASSIGN_OR_RETURN(scaling.factor, get_float(rope, "factor"));
  scaling.kind = RopeScaling::Kind::kLinear;
  if (type == "linear") return Status();
  scaling.kind = RopeScaling::Kind::kLlama3;
  MS_ASSIGN_OR_RETURN(scaling.low_freq_factor, get_float(rope, "low_freq_factor"));
  MS_ASSIGN_OR_RETURN(scaling.high_freq_factor, get_float(rope, "high_freq_factor"));
  // In transformers a field beside rope_scaling goes before the one inside.
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  const JsonObject& holder = json.has(kOriginal) ? json : rope;
  MS_ASSIGN_OR_RETURN(scaling.original_context,
                      holder.get_int_or(kOriginal, config.context_length));
  return Status();
}

Status read_rope(const JsonObject& json, ModelConfig& config) {
  config.rope_theta = 10000.0f;
  if (json.has("rope_theta")) {
    MS_ASSIGN_OR_RETURN(config.rope_theta, get_float(json, "rope_theta"));
  }
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const Json* value = json.find(key);
    if (value == nullptr || (value->is_object() && value->empty())) continue;
    MS_ASSIGN_OR_RETURN(const JsonObject rope, json.get_object(key));
    for (const std::string& inner : rope.keys()) {
      if (rope.json().at(inner).is_object())
        return refuse(rope, inner, "rope per layer type is not supported");
    }
    return read_rope_scaling(json, rope, config);
  }
  return Status();
}

Result<int32_t> token_of(const JsonObject& json, std::string_view key, int64_t id) {
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    return json.error(key, "expected a token number, got " + std::to_string(id));
  }
  return static_cast<int32_t>(id);
}

/// A token number, null, absent or -1 (none).
Status read_token(const JsonObject& json, std::string_view key, int32_t& out) {
  MS_ASSIGN_OR_RETURN(const int64_t id, json.get_int_or(key, -1));
  if (id == -1) return Status();
  MS_ASSIGN_OR_RETURN(out, token_of(json, key, id));
  return Status();
}

/// One token number or a list of them.
Status read_eos(const JsonObject& json, std::vector<int32_t>& out) {
  constexpr std::string_view kKey = "eos_token_id";
  const Json* value = json.find(kKey);
  if (value == nullptr) return Status();
  std::vector<int64_t> ids;
  if (value->is_array()) {
    MS_ASSIGN_OR_RETURN(ids, json.get_ints(kKey));
  } else {
    MS_ASSIGN_OR_RETURN(const int64_t id, json.get_int(kKey));
    if (id != -1) ids.push_back(id);
  }
  for (const int64_t id : ids) {
    MS_ASSIGN_OR_RETURN(const int32_t token, token_of(json, kKey, id));
    out.push_back(token);
  }
  return Status();
}

Status read_sizes(const JsonObject& json, const Family& family, ModelConfig& config) {
  MS_ASSIGN_OR_RETURN(config.d, json.get_int("hidden_size"));
  MS_ASSIGN_OR_RETURN(config.layers, json.get_int("num_hidden_layers"));
  MS_ASSIGN_OR_RETURN(config.query_heads, json.get_int("num_attention_heads"));
  // The classes' defaults differ: Llama takes the query heads, the Qwens 32.
  const int64_t default_kv_heads = family.name == "llama" ? config.query_heads : 32;
  MS_ASSIGN_OR_RETURN(config.kv_heads, json.get_int_or("num_key_value_heads", default_kv_heads));
  MS_ASSIGN_OR_RETURN(config.ffn, json.get_int("intermediate_size"));
  MS_ASSIGN_OR_RETURN(config.vocabulary, json.get_int("vocab_size"));
  MS_ASSIGN_OR_RETURN(config.context_length, json.get_int("max_position_embeddings"));
  int64_t head_width = family.default_head_width;
  if (head_width == 0) {
    if (config.query_heads < 1) return json.error("num_attention_heads", "expected at least 1");
    head_width = config.d / config.query_heads;
    if (!json.has("head_dim") && head_width * config.query_heads != config.d) {
      return json.error("num_attention_heads",
                        "does not divide hidden_size, and head_dim is missing");
    }
  }
  MS_ASSIGN_OR_RETURN(config.head_width, json.get_int_or("head_dim", head_width));
  return Status();
}

Status read_biases(const JsonObject& json, const Family& family, ModelConfig& config) {
  config.qk_norm = family.qk_norm;
  config.attention_bias = family.qkv_bias_always;
  if (family.has_attention_bias) {
    MS_ASSIGN_OR_RETURN(config.attention_bias, json.get_bool_or("attention_bias", false));
    config.output_bias = config.attention_bias;
  }
  if (family.has_mlp_bias) {
    MS_ASSIGN_OR_RETURN(config.mlp_bias, json.get_bool_or("mlp_bias", false));
  }
  return Status();
}

}  // namespace

Result<ModelConfig> parse_hf_config(std::string_view text, std::string_view source) {
  MS_ASSIGN_OR_RETURN(const Json root, parse_json(text, source));
  MS_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::from(root, source));
  MS_ASSIGN_OR_RETURN(const Family* family, find_family(json));
  MS_RETURN_IF_ERROR(refuse_unhandled_fields(json));
  ModelConfig config;
  config.family = family->name;
  MS_RETURN_IF_ERROR(read_sizes(json, *family, config));
  MS_RETURN_IF_ERROR(refuse_sliding_window(json, *family, config.layers));
  MS_RETURN_IF_ERROR(read_rope(json, config));
  MS_RETURN_IF_ERROR(read_biases(json, *family, config));
  config.rms_eps = 1e-6f;
  if (json.has("rms_norm_eps")) {
    MS_ASSIGN_OR_RETURN(config.rms_eps, get_float(json, "rms_norm_eps"));
  }
  MS_ASSIGN_OR_RETURN(config.tied_embeddings, json.get_bool_or("tie_word_embeddings", false));
  MS_RETURN_IF_ERROR(read_eos(json, config.eos_tokens));
  MS_RETURN_IF_ERROR(read_token(json, "bos_token_id", config.bos_token));
  MS_RETURN_IF_ERROR(read_token(json, "pad_token_id", config.pad_token));
  const Status valid = validate_config(config);
  if (!valid.ok()) return valid.with_context(source);
  return config;
}

namespace {

const Family* family_named(std::string_view name) {
  for (const Family& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

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

}  // namespace

Result<Json> make_hf_config(const ModelConfig& config, std::string_view dtype) {
  const Family* family = family_named(config.family);
  if (family == nullptr) return invalid_argument("unknown model family '" + config.family + "'");
  // A bias that the family's class has no field for cannot be said.
  const bool says_attention =
      family->has_attention_bias && config.attention_bias == config.output_bias;
  const bool implied_attention =
      config.attention_bias == family->qkv_bias_always && !config.output_bias;
  if (!says_attention && !implied_attention) {
    return unimplemented(std::string(family->architecture) +
                         " has no field for these attention biases");
  }
  if (config.mlp_bias && !family->has_mlp_bias) {
    return unimplemented(std::string(family->architecture) + " has no field for MLP biases");
  }
  Json json = {{"architectures", Json::array({family->architecture})},
               {"model_type", family->name},
               {"hidden_size", config.d},
               {"intermediate_size", config.ffn},
               {"num_hidden_layers", config.layers},
               {"num_attention_heads", config.query_heads},
               {"num_key_value_heads", config.kv_heads},
               {"head_dim", config.head_width},
               {"vocab_size", config.vocabulary},
               {"max_position_embeddings", config.context_length},
               {"hidden_act", "silu"},
               {"rms_norm_eps", json_float(config.rms_eps)},
               {"rope_theta", json_float(config.rope_theta)}};
  MS_ASSIGN_OR_RETURN(json["rope_scaling"], rope_scaling_json(config.rope_scaling));
  if (family->has_attention_bias) json["attention_bias"] = config.attention_bias;
  if (family->has_mlp_bias) json["mlp_bias"] = config.mlp_bias;
  json["attention_dropout"] = 0.0;
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["bos_token_id"] = token_json(config.bos_token);
  json["eos_token_id"] = eos_json(config.eos_tokens);
  json["pad_token_id"] = token_json(config.pad_token);
  json["torch_dtype"] = dtype;
  json["use_cache"] = true;
  return json;
}

namespace {

Status read_optional_float(const JsonObject& json, std::string_view key,
                           std::optional<float>& out) {
  if (!json.has(key)) return Status();
  MS_ASSIGN_OR_RETURN(out, get_float(json, key));
  return Status();
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view text, std::string_view source) {
  MS_ASSIGN_OR_RETURN(const Json root, parse_json(text, source));
  MS_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::from(root, source));
  GenerationConfig out;
  MS_RETURN_IF_ERROR(read_eos(json, out.eos_tokens));
  if (json.has("do_sample")) {
    MS_ASSIGN_OR_RETURN(out.do_sample, json.get_bool("do_sample"));
  }
  if (json.has("top_k")) {
    MS_ASSIGN_OR_RETURN(const int64_t top_k, json.get_int("top_k"));
    if (top_k < 0 || top_k > std::numeric_limits<int32_t>::max()) {
      return json.error("top_k", "expected a count, got " + std::to_string(top_k));
    }
    out.top_k = static_cast<int32_t>(top_k);
  }
  MS_RETURN_IF_ERROR(read_optional_float(json, "temperature", out.temperature));
  MS_RETURN_IF_ERROR(read_optional_float(json, "top_p", out.top_p));
  MS_RETURN_IF_ERROR(read_optional_float(json, "min_p", out.min_p));
  MS_RETURN_IF_ERROR(read_optional_float(json, "repetition_penalty", out.repetition_penalty));
  return out;
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

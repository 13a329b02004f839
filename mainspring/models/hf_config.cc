#include "mainspring/models/hf_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mainspring/base/nearest.h"
#include "mainspring/io/json.h"
#include "mainspring/models/hf_config_gpt2.h"
#include "mainspring/models/hf_family.h"

namespace mainspring {
namespace {

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const HfFamily& family : hf_families()) names.emplace_back(family.architecture);
  return names;
}

Status unknown_architecture(const JsonObject& json, std::string_view key, const std::string& got) {
  std::string known;
  for (const std::string& name : architectures()) known += (known.empty() ? "" : ", ") + name;
  return unimplemented(json.where(key) + ": architecture '" + got +
                       "' is not supported; supported are " + known +
                       " (nearest: " + nearest_name(got, architectures()) + ")");
}

/// A model that computes more than its family's class (a cap on its logits) is of a class of our
/// own, so that no other reader takes it for the family's (docs/adr/0010).
bool has_own_class(const JsonObject& json) {
  const Json* type = json.find("model_type");
  return type != nullptr && type->is_string() &&
         type->get<std::string>().starts_with(kOwnModelType);
}

Result<const HfFamily*> find_own_family(const JsonObject& json) {
  MS_ASSIGN_OR_RETURN(const std::string type, json.get_string("model_type"));
  for (const HfFamily& family : hf_families()) {
    if (type == std::string(kOwnModelType) + std::string(family.model_type)) return &family;
  }
  return unknown_architecture(json, "model_type", type);
}

Result<const HfFamily*> find_family(const JsonObject& json) {
  if (has_own_class(json)) return find_own_family(json);
  if (json.has("architectures")) {
    MS_ASSIGN_OR_RETURN(const std::vector<std::string> names, json.get_strings("architectures"));
    if (names.size() != 1)
      return json.error("architectures", "expected one name, got " + std::to_string(names.size()));
    for (const HfFamily& family : hf_families()) {
      if (names[0] != family.architecture) continue;
      MS_ASSIGN_OR_RETURN(const std::string type,
                          json.get_string_or("model_type", std::string(family.model_type)));
      if (type == family.model_type) return &family;
      return json.error("model_type", "expected \"" + std::string(family.model_type) + "\" with " +
                                          names[0] + ", got \"" + type + "\"");
    }
    return unknown_architecture(json, "architectures", names[0]);
  }
  MS_ASSIGN_OR_RETURN(const std::string type, json.get_string("model_type"));
  for (const HfFamily& family : hf_families()) {
    if (type == family.model_type) return &family;
  }
  return unknown_architecture(json, "model_type", type);
}

Status refuse(const JsonObject& json, std::string_view key, const std::string& why) {
  return unimplemented(json.where(key) + ": " + why);
}

/// Gemma's classes read hidden_activation, the others hidden_act; a second spelling may not differ.
Status refuse_other_activations(const JsonObject& json, const HfFamily& family) {
  const std::string_view expected = family.is_gemma ? "gelu_pytorch_tanh" : "silu";
  const std::string_view same = family.is_gemma ? "gelu_new" : "swish";
  for (const std::string_view key : {"hidden_act", "hidden_activation"}) {
    MS_ASSIGN_OR_RETURN(const std::string activation, json.get_string_or(key, expected));
    if (activation != expected && activation != same) {
      return refuse(json, key,
                    "'" + activation + "' is not supported, only " + std::string(expected));
    }
  }
  return Status();
}

/// Fields that change results and are not handled: each may only be absent, null, or the value that
/// does nothing.
Status refuse_unhandled_fields(const JsonObject& json, const HfFamily& family) {
  struct Neutral {
    std::string_view key;
    Json value;
  };
  const Neutral neutral[] = {
      {"attention_dropout", 0},
      {"rope_interleaved", false},
      {"quantization_config", {}},
      {"is_causal", true},
      {"use_bidirectional_attention", false},
      {"is_encoder_decoder", false},
      {"add_cross_attention", false},
      {"residual_dropout", 0},
      {"hidden_dropout", 0},
      {"embedding_dropout", 0},
      {"resid_pdrop", 0},
      {"embd_pdrop", 0},
      {"attn_pdrop", 0},
      {"logits_scaling", 1},
      {"residual_multiplier", 1},
      {"embedding_multiplier", 1},
      {"attention_multiplier", {}},
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
  if (!family.is_gemma && !has_own_class(json) && json.has("final_logit_softcapping"))
    return refuse(json, "final_logit_softcapping", "is not supported here, only absent");
  if (!family.has_attention_softcap && json.has("attn_logit_softcapping"))
    return refuse(json, "attn_logit_softcapping", "is not supported here, only absent");
  return refuse_other_activations(json, family);
}

/// layer_types of a class that does not read it may only say what the class does.
Status refuse_other_attention(const JsonObject& json, std::string_view kind) {
  if (!json.has("layer_types")) return Status();
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.get_strings("layer_types"));
  for (const std::string& type : types) {
    if (type == kind) continue;
    return refuse(json, "layer_types",
                  "'" + type + "' is not supported here, only " + std::string(kind));
  }
  return Status();
}

/// layer_types names every layer's kind of attention.
Status read_layer_types(const JsonObject& json, ModelConfig& config) {
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.get_strings("layer_types"));
  if (static_cast<int64_t>(types.size()) != config.layers) {
    return json.error("layer_types", "expected " + std::to_string(config.layers) +
                                         " entries, one per layer, got " +
                                         std::to_string(types.size()));
  }
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return refuse(json, "layer_types",
                    "'" + type + "' is not supported, only full_attention and sliding_attention");
    }
    config.windowed_layers.push_back(type == "sliding_attention");
  }
  return Status();
}

/// Windows on all layers or on none are one value of the config, however the file says so.
void simplify_windows(ModelConfig& config) {
  std::vector<bool>& windowed = config.windowed_layers;
  if (windowed.empty()) return;
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (count == 0) config.window = 0;
  if (config.window == 0 || count == config.layers) windowed.clear();
}

/// layer_types, or every n-th layer full.
Status read_pattern(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  if (json.has("layer_types")) return read_layer_types(json, config);
  constexpr std::string_view kKey = "sliding_window_pattern";
  MS_ASSIGN_OR_RETURN(const int64_t every, json.get_int_or(kKey, family.default_pattern));
  if (every < 1) return json.error(kKey, "expected 1 or more, got " + std::to_string(every));
  for (int64_t layer = 0; layer < config.layers; ++layer)
    config.windowed_layers.push_back((layer + 1) % every != 0);
  return Status();
}

Status read_window(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  const bool is_null = json.json().contains("sliding_window") && !json.has("sliding_window");
  const int64_t absent = is_null ? 0 : family.default_window;
  switch (family.window) {
    case WindowRule::kNone:
      if (json.has("sliding_window"))
        return refuse(json, "sliding_window",
                      std::string(family.architecture) + " does not read it, so it is a mistake");
      return refuse_other_attention(json, "full_attention");
    case WindowRule::kEveryLayer: {
      MS_ASSIGN_OR_RETURN(config.window, json.get_int_or("sliding_window", absent));
      MS_RETURN_IF_ERROR(
          refuse_other_attention(json, config.window > 0 ? "sliding_attention" : "full_attention"));
      break;
    }
    case WindowRule::kSwitched: {
      MS_ASSIGN_OR_RETURN(const bool use, json.get_bool_or("use_sliding_window", false));
      MS_ASSIGN_OR_RETURN(const int64_t window, json.get_int_or("sliding_window", absent));
      MS_ASSIGN_OR_RETURN(const int64_t first, json.get_int_or("max_window_layers", 28));
      if (json.has("layer_types")) {
        MS_RETURN_IF_ERROR(read_layer_types(json, config));
      } else {
        for (int64_t layer = 0; layer < config.layers; ++layer)
          config.windowed_layers.push_back(layer >= first);
      }
      config.window = use ? window : 0;
      break;
    }
    case WindowRule::kPattern: {
      MS_ASSIGN_OR_RETURN(config.window, json.get_int_or("sliding_window", absent));
      MS_RETURN_IF_ERROR(read_pattern(json, family, config));
      break;
    }
  }
  if (json.has("sliding_window")) {
    MS_ASSIGN_OR_RETURN(const int64_t stated, json.get_int("sliding_window"));
    if (stated < 1) {
      return json.error("sliding_window",
                        "expected 1 or more, or null, got " + std::to_string(stated));
    }
  }
  simplify_windows(config);
  return Status();
}

Result<float> get_float(const JsonObject& json, std::string_view key) {
  MS_ASSIGN_OR_RETURN(const double value, json.get_number(key));
  if (!std::isfinite(value) ||
      std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
    return json.error(key, "does not fit a 32-bit float");
  }
  return static_cast<float>(value);
}

/// The part of a head that rope turns, as a fraction, beside the other fields or among the rope
/// ones. Classes that do not read it must leave it at 1.
Status read_partial_rotary(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (!json.has(kKey)) return Status();
  MS_ASSIGN_OR_RETURN(const double factor, json.get_number(kKey));
  if (factor == 1.0) return Status();
  if (!family.has_partial_rotary)
    return refuse(json, kKey, json_text(*json.find(kKey)) + " is not supported, only 1");
  if (!(factor > 0.0 && factor < 1.0))
    return json.error(kKey, "expected more than 0 and at most 1");
  config.rotary_width = static_cast<int64_t>(static_cast<double>(config.head_width) * factor);
  if (config.rotary_width < 2 || config.rotary_width % 2 != 0) {
    return refuse(json, kKey,
                  "a rotary width of " + std::to_string(config.rotary_width) +
                      " is not supported, only even ones");
  }
  return Status();
}

/// `rope` is rope_scaling or rope_parameters; transformers writes the type as rope_type, once as
/// type.
Status read_rope_scaling(const JsonObject& json, const JsonObject& rope, ModelConfig& config) {
  const std::string_view type_key = rope.has("rope_type") ? "rope_type" : "type";
  MS_ASSIGN_OR_RETURN(const std::string type, rope.get_string_or(type_key, "default"));
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

/// Windowed layers with a theta of their own: rope_parameters by kind of layer, or rope_theta and
/// rope_local_base_freq; a scaling is of the full layers.
Status read_rope_by_layer(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  config.rope_theta = family.default_global_theta;
  config.local_rope_theta = family.default_local_theta;
  if (json.has("rope_theta")) {
    MS_ASSIGN_OR_RETURN(config.rope_theta, get_float(json, "rope_theta"));
  }
  if (json.has("rope_local_base_freq")) {
    MS_ASSIGN_OR_RETURN(config.local_rope_theta, get_float(json, "rope_local_base_freq"));
  }
  if (json.has("rope_scaling")) {
    MS_ASSIGN_OR_RETURN(const JsonObject rope, json.get_object("rope_scaling"));
    MS_RETURN_IF_ERROR(read_rope_scaling(json, rope, config));
  }
  if (!json.has("rope_parameters")) return Status();
  MS_ASSIGN_OR_RETURN(const JsonObject kinds, json.get_object("rope_parameters"));
  for (const std::string& kind : kinds.keys()) {
    if (kind != "full_attention" && kind != "sliding_attention")
      return refuse(kinds, kind, "is not supported, only full_attention and sliding_attention");
  }
  if (kinds.has("full_attention")) {
    MS_ASSIGN_OR_RETURN(const JsonObject full, kinds.get_object("full_attention"));
    MS_RETURN_IF_ERROR(read_rope_scaling(json, full, config));
  }
  if (!kinds.has("sliding_attention")) return Status();
  MS_ASSIGN_OR_RETURN(const JsonObject local, kinds.get_object("sliding_attention"));
  MS_ASSIGN_OR_RETURN(const std::string type, local.get_string_or("rope_type", "default"));
  if (type != "default")
    return refuse(local, "rope_type", "'" + type + "' is not supported, only default");
  if (local.has("rope_theta")) {
    MS_ASSIGN_OR_RETURN(config.local_rope_theta, get_float(local, "rope_theta"));
  }
  return Status();
}

Status read_rope(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  if (family.default_local_theta > 0.0f) return read_rope_by_layer(json, family, config);
  config.rope_theta = family.default_global_theta;
  MS_RETURN_IF_ERROR(read_partial_rotary(json, family, config));
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
    MS_RETURN_IF_ERROR(read_partial_rotary(rope, family, config));
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

Status read_sizes(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  MS_ASSIGN_OR_RETURN(config.d, json.get_int("hidden_size"));
  MS_ASSIGN_OR_RETURN(config.layers, json.get_int("num_hidden_layers"));
  MS_ASSIGN_OR_RETURN(config.query_heads, json.get_int("num_attention_heads"));
  const int64_t default_kv_heads =
      family.default_kv_heads == 0 ? config.query_heads : family.default_kv_heads;
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

/// Bounds what is made per layer before the whole config is checked.
Status check_layers(const JsonObject& json, int64_t layers) {
  constexpr int64_t kMost = 4096;
  if (layers >= 1 && layers <= kMost) return Status();
  return json.error("num_hidden_layers",
                    "expected 1 to " + std::to_string(kMost) + ", got " + std::to_string(layers));
}

Status read_biases(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
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

/// null for none.
Status read_softcap(const JsonObject& json, std::string_view key, float fallback, float& out) {
  const bool is_null = json.json().contains(std::string(key)) && !json.has(key);
  out = is_null ? 0.0f : fallback;
  if (!json.has(key)) return Status();
  MS_ASSIGN_OR_RETURN(out, get_float(json, key));
  if (out > 0.0f) return Status();
  return json.error(key, "expected a positive number or null");
}

Status read_gemma(const JsonObject& json, const HfFamily& family, ModelConfig& config) {
  config.activation = MlpActivation::kGeluTanh;
  config.norm_plus_one = true;
  config.sandwich_norms = true;
  config.scaled_embeddings = true;
  config.query_scalar = 256.0f;
  if (json.has("query_pre_attn_scalar")) {
    MS_ASSIGN_OR_RETURN(config.query_scalar, get_float(json, "query_pre_attn_scalar"));
  }
  if (family.has_attention_softcap) {
    MS_RETURN_IF_ERROR(read_softcap(json, "attn_logit_softcapping",
                                    family.default_attention_softcap, config.attention_softcap));
  }
  return read_softcap(json, "final_logit_softcapping", family.default_final_softcap,
                      config.final_softcap);
}

}  // namespace

namespace {

Result<ModelConfig> parse_decoder(const JsonObject& json, const HfFamily& family) {
  if (family.is_gpt2) return parse_gpt2_config(json);
  MS_RETURN_IF_ERROR(refuse_unhandled_fields(json, family));
  ModelConfig config;
  config.family = family.name;
  MS_RETURN_IF_ERROR(read_sizes(json, family, config));
  MS_RETURN_IF_ERROR(check_layers(json, config.layers));
  MS_RETURN_IF_ERROR(read_window(json, family, config));
  MS_RETURN_IF_ERROR(read_rope(json, family, config));
  MS_RETURN_IF_ERROR(read_biases(json, family, config));
  if (family.is_gemma) MS_RETURN_IF_ERROR(read_gemma(json, family, config));
  config.rms_eps = family.default_rms_eps;
  if (json.has("rms_norm_eps")) {
    MS_ASSIGN_OR_RETURN(config.rms_eps, get_float(json, "rms_norm_eps"));
  }
  return config;
}

}  // namespace

Result<ModelConfig> parse_hf_config(std::string_view text, std::string_view source) {
  MS_ASSIGN_OR_RETURN(const Json root, parse_json(text, source));
  MS_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::from(root, source));
  MS_ASSIGN_OR_RETURN(const HfFamily* family, find_family(json));
  MS_ASSIGN_OR_RETURN(ModelConfig config, parse_decoder(json, *family));
  if (has_own_class(json)) {
    MS_ASSIGN_OR_RETURN(config.final_softcap, get_float(json, "final_logit_softcapping"));
  }
  MS_ASSIGN_OR_RETURN(config.tied_embeddings,
                      json.get_bool_or("tie_word_embeddings", family->is_gemma || family->is_gpt2));
  MS_RETURN_IF_ERROR(read_eos(json, config.eos_tokens));
  MS_RETURN_IF_ERROR(read_token(json, "bos_token_id", config.bos_token));
  MS_RETURN_IF_ERROR(read_token(json, "pad_token_id", config.pad_token));
  const Status valid = validate_config(config);
  if (!valid.ok()) return valid.with_context(source);
  return config;
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

}  // namespace mainspring

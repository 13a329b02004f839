#include "mainspring/models/hf_config_gpt2.h"

#include <cmath>

namespace mainspring {
namespace {

/// Fields that may only have the value that GPT-2 itself has.
Status refuse_variants(const JsonObject& json) {
  struct Neutral {
    std::string_view key;
    bool value;
  };
  constexpr Neutral kNeutral[] = {{"scale_attn_weights", true},
                                  {"scale_attn_by_inverse_layer_idx", false},
                                  {"reorder_and_upcast_attn", false},
                                  {"add_cross_attention", false},
                                  {"is_encoder_decoder", false}};
  for (const Neutral& field : kNeutral) {
    MS_ASSIGN_OR_RETURN(const bool value, json.get_bool_or(field.key, field.value));
    if (value != field.value)
      return unimplemented(json.where(field.key) + ": " + (value ? "true" : "false") +
                           " is not supported");
  }
  if (json.has("quantization_config"))
    return unimplemented(json.where("quantization_config") + ": is not supported");
  constexpr std::string_view kActivation = "activation_function";
  MS_ASSIGN_OR_RETURN(const std::string activation, json.get_string_or(kActivation, "gelu_new"));
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") return Status();
  return unimplemented(json.where(kActivation) + ": '" + activation +
                       "' is not supported, only gelu_new");
}

}  // namespace

Result<ModelConfig> parse_gpt2_config(const JsonObject& json) {
  MS_RETURN_IF_ERROR(refuse_variants(json));
  ModelConfig config;
  config.family = "gpt2";
  MS_ASSIGN_OR_RETURN(config.d, json.get_int("n_embd"));
  MS_ASSIGN_OR_RETURN(config.layers, json.get_int("n_layer"));
  MS_ASSIGN_OR_RETURN(config.query_heads, json.get_int("n_head"));
  MS_ASSIGN_OR_RETURN(config.vocabulary, json.get_int("vocab_size"));
  MS_ASSIGN_OR_RETURN(config.context_length, json.get_int("n_positions"));
  if (config.d < 1 || config.d > (int64_t{1} << 24))
    return json.error("n_embd", "expected 1 to 16777216, got " + std::to_string(config.d));
  if (config.query_heads < 1 || config.d % config.query_heads != 0)
    return json.error("n_head", "expected a divisor of " + std::to_string(config.d) + ", got " +
                                    std::to_string(config.query_heads));
  MS_ASSIGN_OR_RETURN(config.ffn, json.get_int_or("n_inner", 4 * config.d));
  config.kv_heads = config.query_heads;
  config.head_width = config.d / config.query_heads;
  MS_ASSIGN_OR_RETURN(const double eps, json.get_number_or("layer_norm_epsilon", 1e-5));
  config.rms_eps = static_cast<float>(eps);
  config.layer_norm = true;
  config.learned_positions = true;
  config.gated_mlp = false;
  config.activation = MlpActivation::kGeluTanh;
  config.attention_bias = true;
  config.output_bias = true;
  config.mlp_bias = true;
  return config;
}

Result<Json> make_gpt2_config(const ModelConfig& config) {
  const bool is_gpt2 = config.layer_norm && config.learned_positions && !config.gated_mlp &&
                       config.activation == MlpActivation::kGeluTanh && config.attention_bias &&
                       config.output_bias && config.mlp_bias && config.window == 0 &&
                       config.kv_heads == config.query_heads &&
                       config.head_width * config.query_heads == config.d;
  if (!is_gpt2) return unimplemented("GPT2LMHeadModel computes another layer");
  return Json{{"architectures", Json::array({"GPT2LMHeadModel"})},
              {"model_type", "gpt2"},
              {"n_embd", config.d},
              {"n_inner", config.ffn},
              {"n_layer", config.layers},
              {"n_head", config.query_heads},
              {"n_positions", config.context_length},
              {"n_ctx", config.context_length},
              {"vocab_size", config.vocabulary},
              {"activation_function", "gelu_new"},
              {"layer_norm_epsilon", json_float(config.rms_eps)},
              {"attn_pdrop", 0.0},
              {"embd_pdrop", 0.0},
              {"resid_pdrop", 0.0}};
}

}  // namespace mainspring

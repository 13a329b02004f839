#include "mainspring/models/config.h"

#include <cmath>
#include <limits>

#include "mainspring/models/names.h"

namespace mainspring {
namespace {

// Above any real model; they keep sizes of hostile files inside 64-bit arithmetic.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;

Status check_range(std::string_view what, int64_t got, int64_t least, int64_t most) {
  if (got >= least && got <= most) return Status();
  return invalid_argument(std::string(what) + ": expected " + std::to_string(least) + " to " +
                          std::to_string(most) + ", got " + std::to_string(got));
}

Status check_positive(std::string_view what, float got) {
  if (std::isfinite(got) && got > 0.0f) return Status();
  return invalid_argument(std::string(what) + ": expected a positive number, got " +
                          std::to_string(got));
}

Status check_tokens(const ModelConfig& config) {
  for (const int32_t token : config.eos_tokens) {
    MS_RETURN_IF_ERROR(check_range("end-of-text token", token, 0, config.vocabulary - 1));
  }
  return check_range("beginning-of-text token", config.bos_token, -1, config.vocabulary - 1);
}

Status check_rope(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  MS_RETURN_IF_ERROR(check_positive("rope theta", config.rope_theta));
  MS_RETURN_IF_ERROR(check_positive("rope scaling factor", scaling.factor));
  if (scaling.kind == RopeScaling::Kind::kLlama3) {
    MS_RETURN_IF_ERROR(check_positive("rope low_freq_factor", scaling.low_freq_factor));
    MS_RETURN_IF_ERROR(
        check_range("rope original context", scaling.original_context, 1, kMaxWidth * 64));
    if (!std::isfinite(scaling.high_freq_factor) ||
        scaling.high_freq_factor <= scaling.low_freq_factor) {
      return invalid_argument("rope high_freq_factor: expected more than low_freq_factor");
    }
  }
  if (scaling.kind == RopeScaling::Kind::kFactors) {
    MS_RETURN_IF_ERROR(check_range("rope factors", static_cast<int64_t>(scaling.factors.size()),
                                   rotary_width(config) / 2, rotary_width(config) / 2));
    for (const float factor : scaling.factors)
      MS_RETURN_IF_ERROR(check_positive("rope factor", factor));
  }
  return Status();
}

/// Zero (none) or positive.
Status check_optional(std::string_view what, float got) {
  return got == 0.0f ? Status() : check_positive(what, got);
}

Status check_window(const ModelConfig& config) {
  MS_RETURN_IF_ERROR(check_range("sliding window", config.window, 0, kMaxWidth * 64));
  if (config.windowed_layers.empty()) return Status();
  const auto given = static_cast<int64_t>(config.windowed_layers.size());
  return check_range("layers with a kind of attention", given, config.layers, config.layers);
}

}  // namespace

int64_t rotary_width(const ModelConfig& config) {
  return config.rotary_width == 0 ? config.head_width : config.rotary_width;
}

int64_t layer_window(const ModelConfig& config, int64_t layer) {
  const bool is_windowed =
      config.windowed_layers.empty() || config.windowed_layers[static_cast<size_t>(layer)];
  return is_windowed ? config.window : 0;
}

Status validate_config(const ModelConfig& config) {
  MS_RETURN_IF_ERROR(check_range("hidden size", config.d, 1, kMaxWidth));
  MS_RETURN_IF_ERROR(check_range("layers", config.layers, 1, kMaxLayers));
  MS_RETURN_IF_ERROR(check_range("attention heads", config.query_heads, 1, kMaxWidth));
  MS_RETURN_IF_ERROR(check_range("key/value heads", config.kv_heads, 1, config.query_heads));
  MS_RETURN_IF_ERROR(check_range("head width", config.head_width, 2, 4096));
  MS_RETURN_IF_ERROR(check_range("feed-forward width", config.ffn, 1, kMaxWidth));
  MS_RETURN_IF_ERROR(
      check_range("vocabulary", config.vocabulary, 1, std::numeric_limits<int32_t>::max()));
  MS_RETURN_IF_ERROR(check_range("context length", config.context_length, 1, kMaxWidth * 64));
  if (config.query_heads % config.kv_heads != 0) {
    return invalid_argument("key/value heads: expected a divisor of " +
                            std::to_string(config.query_heads) + ", got " +
                            std::to_string(config.kv_heads));
  }
  if (config.head_width % 2 != 0) {
    return invalid_argument("head width: expected an even number, got " +
                            std::to_string(config.head_width));
  }
  if (config.rotary_width % 2 != 0) {
    return invalid_argument("rotary width: expected an even number, got " +
                            std::to_string(config.rotary_width));
  }
  MS_RETURN_IF_ERROR(check_range("rotary width", config.rotary_width, 0, config.head_width));
  MS_RETURN_IF_ERROR(check_window(config));
  MS_RETURN_IF_ERROR(check_positive("rms norm eps", config.rms_eps));
  MS_RETURN_IF_ERROR(check_rope(config));
  MS_RETURN_IF_ERROR(check_optional("rope theta of windowed layers", config.local_rope_theta));
  MS_RETURN_IF_ERROR(check_optional("query scalar", config.query_scalar));
  MS_RETURN_IF_ERROR(check_optional("attention soft cap", config.attention_softcap));
  MS_RETURN_IF_ERROR(check_optional("logit soft cap", config.final_softcap));
  return check_tokens(config);
}

namespace {

class Lister {
 public:
  void norm(const std::string& name, int64_t width) {
    out.push_back({name + ".weight", {width}});
    if (has_norm_bias) out.push_back({name + ".bias", {width}});
  }
  void linear(const std::string& module, int64_t rows, int64_t columns, bool bias) {
    out.push_back({module + ".weight", {rows, columns}});
    if (bias) out.push_back({module + ".bias", {rows}});
  }
  bool has_norm_bias = false;
  std::vector<ParameterSpec> out;
};

}  // namespace

std::vector<ParameterSpec> model_parameters(const ModelConfig& config) {
  Lister list;
  list.has_norm_bias = config.layer_norm;
  const int64_t q_width = config.query_heads * config.head_width;
  const int64_t kv_width = config.kv_heads * config.head_width;
  list.linear("model.embed_tokens", config.vocabulary, config.d, false);
  if (config.learned_positions)
    list.linear("model.embed_positions", config.context_length, config.d, false);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    list.norm(prefix + "input_layernorm", config.d);
    list.linear(prefix + "self_attn.q_proj", q_width, config.d, config.attention_bias);
    list.linear(prefix + "self_attn.k_proj", kv_width, config.d, config.attention_bias);
    list.linear(prefix + "self_attn.v_proj", kv_width, config.d, config.attention_bias);
    if (config.qk_norm) {
      list.norm(prefix + "self_attn.q_norm", config.head_width);
      list.norm(prefix + "self_attn.k_norm", config.head_width);
    }
    list.linear(prefix + "self_attn.o_proj", config.d, q_width, config.output_bias);
    list.norm(prefix + "post_attention_layernorm", config.d);
    if (config.sandwich_norms) {
      list.norm(prefix + "pre_feedforward_layernorm", config.d);
      list.norm(prefix + "post_feedforward_layernorm", config.d);
    }
    if (config.gated_mlp)
      list.linear(prefix + "mlp.gate_proj", config.ffn, config.d, config.mlp_bias);
    list.linear(prefix + "mlp.up_proj", config.ffn, config.d, config.mlp_bias);
    list.linear(prefix + "mlp.down_proj", config.d, config.ffn, config.mlp_bias);
  }
  list.norm("model.norm", config.d);
  if (!config.tied_embeddings) list.linear("lm_head", config.vocabulary, config.d, false);
  return list.out;
}

}  // namespace mainspring

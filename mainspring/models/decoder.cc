#include "mainspring/models/decoder.h"

#include <algorithm>
#include <limits>

#include "mainspring/autodiff/grad.h"
#include "mainspring/base/bf16.h"
#include "mainspring/base/check.h"
#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"
#include "mainspring/models/rope_table.h"

namespace mainspring {
namespace {

constexpr const char* kAttentionLinears[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
constexpr const char* kMlpLinears[] = {"gate_proj", "up_proj", "down_proj"};

std::string layer_name(int64_t layer) { return "model.layers." + std::to_string(layer); }

/// What every layer of one trace shares.
struct Decoder {
  const nn::Params& params;
  const ModelConfig& config;
  Tensor rope_table;  // (tables * positions, rotary / 2, 2); none with learned positions
  int64_t positions;
  const DecoderTap& tap;

  void show(const std::string& name, const Tensor& value) const {
    if (tap) tap(name, value);
  }
};

Tensor norm(const Decoder& d, const Tensor& x, const std::string& name, int64_t width) {
  const Tensor w = d.params.get(name + ".weight", {width});
  if (d.config.layer_norm)
    return layer_norm(x, w, d.params.get(name + ".bias", {width}), d.config.rms_eps);
  return rms_norm(x, w, d.config.rms_eps, d.config.norm_plus_one);
}

AttentionAttrs attention_attrs(const ModelConfig& config, int64_t layer) {
  const double scalar = config.query_scalar > 0.0f ? static_cast<double>(config.query_scalar)
                                                   : static_cast<double>(config.head_width);
  return {.query_heads = config.query_heads,
          .kv_heads = config.kv_heads,
          .head_width = config.head_width,
          .scale = static_cast<float>(1.0 / __builtin_sqrt(scalar)),
          .window = layer_window(config, layer),
          .layer = layer,
          .softcap = config.attention_softcap};
}

Tensor attention_block(const Decoder& d, const Tensor& x, const std::string& prefix,
                       int64_t layer) {
  const ModelConfig& config = d.config;
  const int64_t q_width = config.query_heads * config.head_width;
  const int64_t kv_width = config.kv_heads * config.head_width;
  auto qkv = nn::linears(d.params, x,
                         {{prefix + ".q_proj", q_width, config.attention_bias},
                          {prefix + ".k_proj", kv_width, config.attention_bias},
                          {prefix + ".v_proj", kv_width, config.attention_bias}});
  if (config.qk_norm) {
    qkv[0] = norm(d, qkv[0], prefix + ".q_norm", config.head_width);
    qkv[1] = norm(d, qkv[1], prefix + ".k_norm", config.head_width);
  }
  if (!config.learned_positions) {
    const int64_t first_row = layer_rope_table(config, layer) * d.positions;
    qkv[0] = rope(qkv[0], d.rope_table, config.query_heads, first_row);
    qkv[1] = rope(qkv[1], d.rope_table, config.kv_heads, first_row);
  }
  const Tensor mixed = attention(qkv[0], qkv[1], qkv[2], attention_attrs(config, layer));
  return nn::linears(d.params, mixed, {{prefix + ".o_proj", config.d, config.output_bias}})[0];
}

Tensor activation(const ModelConfig& config, const Tensor& x) {
  return config.activation == MlpActivation::kGeluTanh ? gelu(x) : silu(x);
}

Tensor mlp_block(const Decoder& d, const Tensor& x, const std::string& prefix) {
  const ModelConfig& config = d.config;
  if (!config.gated_mlp) {
    const Tensor up =
        nn::linears(d.params, x, {{prefix + ".up_proj", config.ffn, config.mlp_bias}})[0];
    return nn::linears(d.params, activation(config, up),
                       {{prefix + ".down_proj", config.d, config.mlp_bias}})[0];
  }
  const auto gate_up = nn::linears(d.params, x,
                                   {{prefix + ".gate_proj", config.ffn, config.mlp_bias},
                                    {prefix + ".up_proj", config.ffn, config.mlp_bias}});
  const Tensor gated = mul(activation(config, gate_up[0]), gate_up[1]);
  return nn::linears(d.params, gated, {{prefix + ".down_proj", config.d, config.mlp_bias}})[0];
}

/// h + attention(norm(h)), then the same with the MLP; sandwich norms also norm what is added.
Tensor decoder_layer(const Decoder& d, const Tensor& h, int64_t layer) {
  const int64_t width = d.config.d;
  const bool is_sandwich = d.config.sandwich_norms;
  const std::string name = layer_name(layer);
  Tensor attended =
      attention_block(d, norm(d, h, name + ".input_layernorm", width), name + ".self_attn", layer);
  if (is_sandwich) attended = norm(d, attended, name + ".post_attention_layernorm", width);
  d.show("layers." + std::to_string(layer) + ".attention", attended);
  const Tensor middle = add({h, attended});
  const std::string before =
      is_sandwich ? ".pre_feedforward_layernorm" : ".post_attention_layernorm";
  Tensor fed = mlp_block(d, norm(d, middle, name + before, width), name + ".mlp");
  if (is_sandwich) fed = norm(d, fed, name + ".post_feedforward_layernorm", width);
  d.show("layers." + std::to_string(layer) + ".mlp", fed);
  const Tensor out = add({middle, fed});
  d.show("layers." + std::to_string(layer), out);
  return out;
}

/// sqrt(d) in the compute dtype, as transformers rounds it before the product.
float embedding_scale(const ModelConfig& config, DType compute) {
  const auto factor = static_cast<float>(__builtin_sqrt(static_cast<double>(config.d)));
  return compute == DType::kBF16 ? to_f32(to_bf16(factor)) : factor;
}

}  // namespace

Tensor decoder_hidden(const nn::Params& params, const ModelConfig& config, int64_t rope_positions,
                      const DecoderTap& tap) {
  Tracer& tracer = params.tracer();
  const Tensor tokens = tracer.input(kTokensInput, {DType::kI32, {{kRows}}});
  Decoder d{params, config, {}, rope_positions, tap};
  Tensor h =
      embedding(tokens, params.get("model.embed_tokens.weight", {config.vocabulary, config.d}));
  if (config.scaled_embeddings) h = scale(h, embedding_scale(config, tracer.graph().compute()));
  if (config.learned_positions) {
    h = add({h, position_embedding(params.get("model.embed_positions.weight",
                                              {config.context_length, config.d}))});
  } else {
    d.rope_table =
        tracer.param(kRopeTableParam, {DType::kF32, {rope_table_shape(config, rope_positions)}});
  }
  d.show("embedding", h);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    h = checkpoint(tracer, "layers." + std::to_string(layer), static_cast<int32_t>(layer),
                   [&] { return decoder_layer(d, h, layer); });
  }
  Tracer::Scope scope(tracer, "norm");
  return norm(d, gather_rows(h), "model.norm", config.d);
}

Tensor decoder_logits(const nn::Params& params, const ModelConfig& config, const Tensor& hidden) {
  const Tensor logits = linear(hidden, {decoder_head(params, config)}, {.f32_output = true})[0];
  return config.final_softcap > 0.0f ? soft_cap(logits, config.final_softcap) : logits;
}

Tensor decoder_logprob(const nn::Params& params, const ModelConfig& config, const Tensor& hidden,
                       const Tensor& targets) {
  return decoder_head_outputs(params, config, hidden, targets).logprob;
}

HeadOutputs decoder_head_outputs(const nn::Params& params, const ModelConfig& config,
                                 const Tensor& hidden, const Tensor& targets) {
  return head_outputs(hidden, decoder_head(params, config), targets, config.final_softcap);
}

Tensor decoder_head(const nn::Params& params, const ModelConfig& config) {
  return params.get(config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
                    {config.vocabulary, config.d});
}

Result<std::vector<std::string>> lora_modules(const ModelConfig& config,
                                              const std::vector<std::string>& targets) {
  std::vector<std::string> known;
  for (const char* name : kAttentionLinears) known.emplace_back(name);
  for (const char* name : kMlpLinears) {
    if (config.gated_mlp || name != std::string_view("gate_proj")) known.emplace_back(name);
  }
  std::vector<bool> wanted(known.size(), targets.empty());
  for (const std::string& target : targets) {
    size_t i = 0;
    while (i < known.size() && known[i] != target) ++i;
    if (i == known.size()) {
      return invalid_argument("LoRA target \"" + target + "\": no such linear, nearest is \"" +
                              nearest_name(target, known) + "\"");
    }
    wanted[i] = true;
  }
  std::vector<std::string> modules;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (size_t i = 0; i < known.size(); ++i) {
      if (!wanted[i]) continue;
      modules.push_back(layer_name(layer) + (i < 4 ? ".self_attn." : ".mlp.") + known[i]);
    }
  }
  return modules;
}

std::pair<int64_t, int64_t> linear_shape(const ModelConfig& config, const std::string& module) {
  const std::string name = module.substr(module.rfind('.') + 1);
  const int64_t q_width = config.query_heads * config.head_width;
  const int64_t kv_width = config.kv_heads * config.head_width;
  if (name == "q_proj") return {q_width, config.d};
  if (name == "k_proj" || name == "v_proj") return {kv_width, config.d};
  if (name == "o_proj") return {config.d, q_width};
  if (name == "gate_proj" || name == "up_proj") return {config.ffn, config.d};
  MS_CHECK(name == "down_proj", "no linear named " + module);
  return {config.d, config.ffn};
}

Status check_lora_rank(const ModelConfig& config, const std::vector<std::string>& modules,
                       int64_t rank, const std::string& name) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  std::string smallest;
  for (const std::string& module : modules) {
    const auto [out, in] = linear_shape(config, module);
    if (std::min(out, in) >= limit) continue;
    limit = std::min(out, in);
    smallest = module + ", " + std::to_string(out) + " x " + std::to_string(in);
  }
  if (rank <= limit) return {};
  return invalid_argument(name + ": expected at most " + std::to_string(limit) +
                          ", the smaller side of the smallest targeted matrix (" + smallest +
                          "), got " + std::to_string(rank));
}

}  // namespace mainspring

#include "mainspring/models/decoder.h"

#include "mainspring/autodiff/grad.h"
#include "mainspring/base/check.h"
#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

constexpr const char* kAttentionLinears[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
constexpr const char* kMlpLinears[] = {"gate_proj", "up_proj", "down_proj"};

std::string layer_name(int64_t layer) { return "model.layers." + std::to_string(layer); }

Tensor attention_block(const nn::Params& params, const ModelConfig& config, const Tensor& x,
                       const std::string& prefix, int64_t layer, const Tensor& table) {
  const int64_t q_width = config.query_heads * config.head_width;
  const int64_t kv_width = config.kv_heads * config.head_width;
  auto qkv = nn::linears(params, x,
                         {{prefix + ".q_proj", q_width, config.attention_bias},
                          {prefix + ".k_proj", kv_width, config.attention_bias},
                          {prefix + ".v_proj", kv_width, config.attention_bias}});
  if (config.qk_norm) {
    qkv[0] = rms_norm(qkv[0], params.get(prefix + ".q_norm.weight", {config.head_width}),
                      config.rms_eps);
    qkv[1] = rms_norm(qkv[1], params.get(prefix + ".k_norm.weight", {config.head_width}),
                      config.rms_eps);
  }
  const AttentionAttrs attrs{
      .query_heads = config.query_heads,
      .kv_heads = config.kv_heads,
      .head_width = config.head_width,
      .scale = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(config.head_width))),
      .window = layer_window(config, layer),
      .layer = layer};
  const Tensor mixed = attention(rope(qkv[0], table, config.query_heads),
                                 rope(qkv[1], table, config.kv_heads), qkv[2], attrs);
  return nn::linears(params, mixed, {{prefix + ".o_proj", config.d, config.output_bias}})[0];
}

Tensor mlp_block(const nn::Params& params, const ModelConfig& config, const Tensor& x,
                 const std::string& prefix) {
  const auto gate_up = nn::linears(params, x,
                                   {{prefix + ".gate_proj", config.ffn, config.mlp_bias},
                                    {prefix + ".up_proj", config.ffn, config.mlp_bias}});
  const Tensor gated = mul(silu(gate_up[0]), gate_up[1]);
  return nn::linears(params, gated, {{prefix + ".down_proj", config.d, config.mlp_bias}})[0];
}

Tensor decoder_layer(const nn::Params& params, const ModelConfig& config, const Tensor& h,
                     int64_t layer, const Tensor& table) {
  const std::string name = layer_name(layer);
  const Tensor attended = attention_block(
      params, config,
      rms_norm(h, params.get(name + ".input_layernorm.weight", {config.d}), config.rms_eps),
      name + ".self_attn", layer, table);
  const Tensor middle = add({h, attended});
  const Tensor fed =
      mlp_block(params, config,
                rms_norm(middle, params.get(name + ".post_attention_layernorm.weight", {config.d}),
                         config.rms_eps),
                name + ".mlp");
  return add({middle, fed});
}

}  // namespace

Tensor decoder_hidden(const nn::Params& params, const ModelConfig& config, int64_t rope_positions) {
  Tracer& tracer = params.tracer();
  const Tensor tokens = tracer.input(kTokensInput, {DType::kI32, {{kRows}}});
  const Tensor table =
      tracer.param(kRopeTableParam, {DType::kF32, {{rope_positions, rotary_width(config) / 2, 2}}});
  Tensor h =
      embedding(tokens, params.get("model.embed_tokens.weight", {config.vocabulary, config.d}));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    h = checkpoint(tracer, "layers." + std::to_string(layer), static_cast<int32_t>(layer),
                   [&] { return decoder_layer(params, config, h, layer, table); });
  }
  Tracer::Scope scope(tracer, "norm");
  return rms_norm(gather_rows(h), params.get("model.norm.weight", {config.d}), config.rms_eps);
}

Tensor decoder_head(const nn::Params& params, const ModelConfig& config) {
  return params.get(config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
                    {config.vocabulary, config.d});
}

Result<std::vector<std::string>> lora_modules(const ModelConfig& config,
                                              const std::vector<std::string>& targets) {
  std::vector<std::string> known;
  for (const char* name : kAttentionLinears) known.emplace_back(name);
  for (const char* name : kMlpLinears) known.emplace_back(name);
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

}  // namespace mainspring

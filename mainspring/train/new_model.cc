#include "mainspring/train/new_model.h"

#include "mainspring/models/random_model.h"
#include "mainspring/train/setup.h"

namespace mainspring {
namespace {

/// Source: Radford et al. 2019; the layer of transformers' GPT2LMHeadModel.
void make_gpt2_layer(const ModelRecipe& m, ModelConfig& config) {
  if (m.intermediate == 0) config.ffn = 4 * m.hidden;
  config.layer_norm = true;
  config.learned_positions = true;
  config.gated_mlp = false;
  config.activation = MlpActivation::kGeluTanh;
  config.attention_bias = true;
  config.output_bias = true;
  config.mlp_bias = true;
  config.tied_embeddings = true;
}

}  // namespace

ModelConfig new_model_config(const ModelRecipe& m) {
  ModelConfig config;
  config.family = m.family;
  config.d = m.hidden;
  config.layers = m.layers;
  config.query_heads = m.heads;
  config.kv_heads = m.kv_heads > 0 ? m.kv_heads : m.heads;
  config.head_width = m.head_dim > 0 ? m.head_dim : m.hidden / m.heads;
  config.ffn = m.intermediate > 0 ? m.intermediate : (m.hidden * 8 / 3 + 31) / 32 * 32;
  config.vocabulary = m.vocab;
  config.context_length = m.context;
  config.rms_eps = static_cast<float>(m.rms_eps);
  config.rope_theta = static_cast<float>(m.rope_theta);
  config.tied_embeddings = m.tie_embeddings;
  config.qk_norm = m.qk_norm || m.family == "qwen3";
  config.final_softcap = static_cast<float>(m.logit_soft_cap);
  if (m.family == "gpt2") make_gpt2_layer(m, config);
  return config;
}

MupOptions mup_options(const ModelRecipe& m) {
  return {.base_hidden = m.mup_base_hidden, .base_head_dim = m.mup_base_head_dim};
}

Result<ModelConfig> recipe_model_config(const Recipe& recipe) {
  if (!makes_model(recipe)) {
    MS_ASSIGN_OR_RETURN(const auto model, load_model(recipe.model.path));
    return model->config;
  }
  MS_ASSIGN_OR_RETURN(TokenizerSource source, read_tokenizer_source(recipe.model.tokenizer));
  auto config = complete_config(new_model_config(recipe.model), source);
  return config.ok() ? std::move(config) : config.status().with_context("[model]");
}

Result<std::shared_ptr<const LoadedModel>> make_new_model(const Recipe& recipe, int num_threads) {
  MS_ASSIGN_OR_RETURN(TokenizerSource source, read_tokenizer_source(recipe.model.tokenizer));
  MS_ASSIGN_OR_RETURN(const InitScheme scheme, parse_init_scheme(recipe.model.init));
  auto model = make_random_model(new_model_config(recipe.model),
                                 {.seed = recipe.seed,
                                  .scheme = scheme,
                                  .std = recipe.model.init_std,
                                  .mup = mup_options(recipe.model),
                                  .dtype = weights_dtype(recipe),
                                  .num_threads = num_threads},
                                 std::move(source));
  return model.ok() ? std::move(model) : model.status().with_context("[model]");
}

}  // namespace mainspring

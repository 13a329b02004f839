#include "mainspring/train/count.h"

#include <algorithm>

#include "mainspring/models/decoder.h"
#include "mainspring/run/progress.h"
#include "mainspring/train/batch_schedule.h"
#include "mainspring/train/new_model.h"
#include "mainspring/train/setup.h"

namespace mainspring {
namespace {

constexpr int64_t kOptimalTokens = 20;  // per parameter

using NamedShapes = std::vector<std::pair<std::string, Shape>>;

int64_t elements_of(const NamedShapes& params) {
  int64_t elements = 0;
  for (const auto& [name, shape] : params) elements += shape.num_elements({});
  return elements;
}

// What learns, in name order, as the engine has it.
Result<NamedShapes> trained_params(const Recipe& recipe, const ModelConfig& config) {
  NamedShapes params;
  if (recipe.tune.mode == "full") {
    for (const ParameterSpec& spec : model_parameters(config)) {
      params.push_back({spec.name, {spec.shape}});
    }
  } else {
    MS_ASSIGN_OR_RETURN(const auto modules, lora_modules(config, recipe.tune.targets));
    for (const std::string& module : modules) {
      const auto [out, in] = linear_shape(config, module);
      params.push_back({module + ".lora_A.weight", {{recipe.tune.rank, in}}});
      params.push_back({module + ".lora_B.weight", {{out, recipe.tune.rank}}});
    }
  }
  std::sort(params.begin(), params.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return params;
}

// Weights of linears and head: what a token is multiplied with.
int64_t multiplied_weights(const ModelConfig& config) {
  int64_t weights = config.vocabulary * config.d;
  const auto modules = lora_modules(config, {});
  for (const std::string& module : modules.value()) {
    const auto [out, in] = linear_shape(config, module);
    weights += out * in;
  }
  return weights;
}

Result<int64_t> state_bytes(const Recipe& recipe, const NamedShapes& params) {
  const OptimizerPlan plan = optimizer_plan(recipe);
  const DType dtype = weights_dtype(recipe);
  MS_ASSIGN_OR_RETURN(const auto parts, assign_params(plan, params, dtype));
  int64_t bytes = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    for (const OptimizerState& state : optimizer_states(parts[i].kind, params[i].second, dtype)) {
      bytes += dtype_bytes(state.dtype, state.shape.num_elements({}));
    }
  }
  return bytes;
}

std::string bytes_text(int64_t bytes) { return format_count(static_cast<double>(bytes)) + "B"; }
std::string count_of(int64_t n) { return format_count(static_cast<double>(n)); }

}  // namespace

Result<RecipeCount> count_recipe(const Recipe& recipe) {
  MS_ASSIGN_OR_RETURN(const ModelConfig config, recipe_model_config(recipe));
  MS_ASSIGN_OR_RETURN(const NamedShapes trained, trained_params(recipe, config));
  const bool full = recipe.tune.mode == "full";
  RecipeCount count;
  for (const ParameterSpec& spec : model_parameters(config)) {
    count.parameters += Shape{spec.shape}.num_elements({});
  }
  count.trained = elements_of(trained);
  const int64_t weights = multiplied_weights(config);
  const int64_t attention = config.layers * config.query_heads * config.head_width;
  const int64_t context = recipe.kind == "rl" ? recipe.rl.max_tokens : recipe.data.max_tokens;
  // Scores and mixing of a token with half a context on average, forward and twice backward.
  count.flops_per_token = (full ? 6.0 : 4.0) * static_cast<double>(weights) +
                          6.0 * static_cast<double>(attention * context);
  count.flops_formula =
      std::string(full ? "6" : "4") +
      " N (linears and head) + 6 layers h c T (attention, T = " + std::to_string(context) + ")";
  const BatchSchedule batches = BatchSchedule::of(recipe.train);
  // A batch in tokens ends with the sequence that fills it.
  const int64_t scale = batches.in_tokens ? 1 : context;
  const int64_t excess = batches.in_tokens ? context - 1 : 0;
  count.tokens_per_step = batches.full * scale + excess;
  count.tokens = batches.total(recipe.train.steps) * scale + recipe.train.steps * excess;
  count.optimal_tokens = kOptimalTokens * count.parameters;
  const int64_t tied = full && config.tied_embeddings ? config.vocabulary * config.d : 0;
  const int64_t width = dtype_bytes(weights_dtype(recipe), 1);
  count.weight_bytes = width * (count.trained + (makes_model(recipe) ? count.parameters : 0));
  count.gradient_bytes = 4 * (count.trained + tied);
  MS_ASSIGN_OR_RETURN(count.optimizer_bytes, state_bytes(recipe, trained));
  const int64_t layout = weights * (recipe.model.dtype == "f32" ? 4 : 2);
  count.layout_bytes = 2 * layout;  // forward and input-gradient
  if (recipe.train.ema > 0) {
    count.ema_bytes = 4 * count.trained + (full && recipe.train.ema_eval ? layout : 0);
  }
  return count;
}

std::string count_text(const RecipeCount& c) {
  const int64_t total =
      c.weight_bytes + c.ema_bytes + c.gradient_bytes + c.optimizer_bytes + c.layout_bytes;
  const double per_parameter =
      static_cast<double>(c.tokens) / static_cast<double>(std::max<int64_t>(1, c.parameters));
  return "parameters          " + count_of(c.parameters) + " (" + count_of(c.trained) +
         " trained)\n" +  //
         "FLOPs per token     " + format_count(c.flops_per_token) + ": " + c.flops_formula + "\n" +
         "tokens              " + count_of(c.tokens) + " at most: " + count_of(c.tokens_per_step) +
         " a step; " + format_count(per_parameter) + " per parameter\n" + "compute-optimal     " +
         count_of(c.optimal_tokens) +
         " tokens: 20 per parameter (Hoffmann et al. 2022, arXiv:2203.15556)\n" +
         "FLOPs of the run    " + format_count(c.flops_per_token * static_cast<double>(c.tokens)) +
         "\n" + "memory              " + bytes_text(total) + ": weights " +
         bytes_text(c.weight_bytes) +
         (c.ema_bytes > 0 ? ", moving average " + bytes_text(c.ema_bytes) : "") + ", gradients " +
         bytes_text(c.gradient_bytes) + ", optimizer " + bytes_text(c.optimizer_bytes) +
         ", layouts " + bytes_text(c.layout_bytes) + "; activations: mainspring inspect plan\n";
}

}  // namespace mainspring

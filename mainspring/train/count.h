// Count: what a recipe will cost, before anything is made: parameters, FLOPs, memory, tokens.
#pragma once

#include <string>

#include "mainspring/base/status.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

struct RecipeCount {
  int64_t parameters = 0;        // tied ones once
  int64_t trained = 0;           // of these, or the adapter's
  double flops_per_token = 0.0;  // of a training step, by `flops_formula`
  std::string flops_formula;
  int64_t tokens_per_step = 0;  // at most
  int64_t tokens = 0;           // of the whole run, at most
  int64_t optimal_tokens = 0;   // 20 per parameter
  // Bytes held for the whole run; what a step adds is in `mainspring inspect plan`.
  int64_t weight_bytes = 0;  // masters, and the base they came from
  int64_t ema_bytes = 0;     // the moving average, and its layouts if evaluations take it
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t layout_bytes = 0;  // weights as the kernels read them
};

/// Errors: those of the model's config and of the optimizer groups.
Result<RecipeCount> count_recipe(const Recipe& recipe);

/// The same for people, with the sources of the formulas.
std::string count_text(const RecipeCount& count);

}  // namespace mainspring

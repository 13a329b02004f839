// A model that a recipe describes by its shape instead of a path.
#pragma once

#include <memory>

#include "mainspring/base/status.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/mup.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

/// True if the recipe makes its model from [model] shape keys.
inline bool makes_model(const Recipe& recipe) { return !recipe.model.family.empty(); }

/// The config that the shape keys say. 0s are filled in: heads for kv_heads, hidden / heads for
/// head_dim, 8/3 hidden rounded up to a multiple of 32 (gpt2: 4 hidden) for intermediate; the
/// vocabulary stays 0 until the tokenizer is known.
ModelConfig new_model_config(const ModelRecipe& model);

MupOptions mup_options(const ModelRecipe& model);

/// The config alone, vocabulary and end-of-text token from the tokenizer, or that of model.path.
/// Errors: those of the tokenizer and of a config that no model can have.
Result<ModelConfig> recipe_model_config(const Recipe& recipe);

/// Random weights of that config. Errors: as above.
Result<std::shared_ptr<const LoadedModel>> make_new_model(const Recipe& recipe, int num_threads);

}  // namespace mainspring

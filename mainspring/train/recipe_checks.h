// Combinations of recipe keys that make no sense, refused before any work.
#pragma once

#include "mainspring/base/status.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

/// Errors: invalid argument naming the keys and what was expected.
Status check_recipe(const Recipe& recipe);

}  // namespace mainspring

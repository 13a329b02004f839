// Parameter groups of a recipe: [[optim.groups]] tables, read and printed.
#pragma once

#include <string>
#include <vector>

#include "mainspring/io/json_fwd.h"
#include "mainspring/io/toml.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

/// Reads a list of tables {params, optimizer, lr_scale, weight_decay}. Returns "", or the whole
/// message: the place of the wrong value, which group and key it is of, what was expected and got,
/// the nearest name.
std::string read_groups(const ConfigValue& value, std::vector<GroupRecipe>& groups);

Json groups_json(const std::vector<GroupRecipe>& groups);

}  // namespace mainspring

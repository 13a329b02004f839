// The coordinate check: a recipe's new model at several widths, trained for a few steps each.
//
// The one idea: the same recipe, data and rates at every width; between steps the first batch goes
// through the model with taps, and mean sizes of its values are kept (lab/coordinates.h says what
// they mean). Writes nothing.
#pragma once

#include <functional>
#include <vector>

#include "mainspring/exec/executor.h"
#include "mainspring/lab/coordinates.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

/// What becomes wider with the model: more heads, or wider ones.
enum class GrownHeads { kMore, kWider };

/// The recipe with a model of another width: layers as they are; heads (or their width), key and
/// value heads, and the MLP in proportion. Errors: invalid argument if one of them would be no
/// whole number, or heads widen under muP without model.mup_base_head_dim.
Result<Recipe> recipe_at_width(const Recipe& recipe, int64_t width, GrownHeads grown);

struct MupCheckOptions {
  std::vector<int64_t> widths;  // two or more, increasing
  int64_t steps = 4;            // at optim.lr, without warm-up
  GrownHeads grown = GrownHeads::kMore;
  bool standard = false;  // with muP switched off
  std::function<void(int64_t width, int64_t step)> progress = {};
};

/// Errors: those of recipe_at_width and set_up before any step; failed precondition for a step that
/// is not finite.
Result<CoordinateTable> check_coordinates(const Recipe& recipe, Executor& executor,
                                          const MupCheckOptions& options);

}  // namespace mainspring

// Sweep grid: a TOML file that says which recipes a sweep runs: a base recipe and lists of values.
//
// The one idea: a point is the base recipe with a few values in their places, read by the recipe's
// own key table, so every refusal is a recipe's; all points are read before one of them runs.
//
//   recipe = "recipes/pretrain_text.toml"
//   [set]                          # for every point
//   train.steps = 100
//   [grid]                         # an axis each; every combination is a point
//   optim.lr = [1e-3, 3e-3]
//   seed = [0, 1]
//   [[zip]]                        # one axis whose keys change together
//   model.hidden = [64, 128]
//   model.heads = [2, 4]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/run/sweep_record.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

constexpr int64_t kMaxSweepPoints = 1000;

struct SweepPlan {
  SweepRecord record;           // title, metric, axes, and the points as they wait
  std::vector<Recipe> recipes;  // one per point
};

/// Reads a grid. `sets` are recipe keys for every point, behind [set]. Errors: not found; invalid
/// argument with file:line:column for a wrong grid (unknown, empty or doubled keys and values, too
/// many points), and with the point's name for a recipe that is refused.
Result<SweepPlan> load_sweep(const std::string& path, const std::vector<std::string>& sets);

/// The indices that `only` chooses, in order: each text is numbers ("3", "2-5", "1,4") or a key
/// with values ("lr=0.001,0.003", "optim.lr=0.001"), and a point must fit all of them; empty: all
/// points. Errors: invalid argument if a key, value or number is unknown, or nothing is left.
Result<std::vector<size_t>> chosen_points(const SweepRecord& sweep,
                                          const std::vector<std::string>& only);

}  // namespace mainspring

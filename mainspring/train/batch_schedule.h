// How large each step's batch is: a pure function of the recipe and the step.
#pragma once

#include <cstdint>

#include "mainspring/train/recipe.h"

namespace mainspring {

/// In sequences, or in tokens (at least so many) if the recipe counts a batch in tokens.
struct BatchSchedule {
  bool in_tokens = false;
  int64_t full = 1;
  int64_t from = 1;        // of step 0
  int64_t ramp_steps = 0;  // from step ramp_steps on the batch is full; before, it rises evenly

  static BatchSchedule of(const TrainRecipe& recipe);
  /// Of step `step` (from 0): from + (full - from) step / ramp_steps, rounded down.
  int64_t size(int64_t step) const;
  /// Of steps [0, steps) together. Cost: O(ramp_steps).
  int64_t total(int64_t steps) const;
};

}  // namespace mainspring

#include "mainspring/train/batch_schedule.h"

#include <algorithm>

namespace mainspring {

BatchSchedule BatchSchedule::of(const TrainRecipe& recipe) {
  BatchSchedule schedule;
  schedule.in_tokens = recipe.batch_tokens > 0;
  schedule.full = schedule.in_tokens ? recipe.batch_tokens : recipe.batch_size;
  schedule.ramp_steps = recipe.batch_ramp_steps;
  schedule.from = recipe.batch_ramp_steps > 0 ? recipe.batch_ramp_from : schedule.full;
  return schedule;
}

int64_t BatchSchedule::size(int64_t step) const {
  if (step >= ramp_steps) return full;
  // No product of two large numbers: the quotient and the rest of the rise are taken apart.
  const int64_t rise = full - from;
  return from + rise / ramp_steps * step + rise % ramp_steps * step / ramp_steps;
}

int64_t BatchSchedule::total(int64_t steps) const {
  const int64_t ramp = std::min(steps, ramp_steps);
  int64_t sum = (steps - ramp) * full;
  for (int64_t step = 0; step < ramp; ++step) sum += size(step);
  return sum;
}

}  // namespace mainspring

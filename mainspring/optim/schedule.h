// Learning-rate schedules: pure functions of the step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

enum class ScheduleKind { kConstant, kLinear, kCosine, kWsd };

/// "constant", "linear", "cosine", "wsd". Errors: invalid argument with the nearest name.
Result<ScheduleKind> parse_schedule(std::string_view name);

/// Warm-up rises linearly from 0 over warmup_steps; then constant, linear or cosine to final_ratio
/// at total_steps; WSD stays at 1 and falls linearly over the last decay_steps.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  int64_t decay_steps = 0;  // WSD
  double final_ratio = 0.0;
};

/// The factor on the base rate at `step` (from 0), computed in f64 with our own cosine.
double schedule_factor(const Schedule& schedule, int64_t step);

}  // namespace mainspring

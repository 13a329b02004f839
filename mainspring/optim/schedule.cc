#include "mainspring/optim/schedule.h"

#include <algorithm>
#include <vector>

#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"

namespace mainspring {

Result<ScheduleKind> parse_schedule(std::string_view name) {
  const std::vector<std::string> known{"constant", "linear", "cosine", "wsd"};
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return static_cast<ScheduleKind>(i);
  }
  return invalid_argument("no schedule named \"" + std::string(name) + "\", nearest is \"" +
                          nearest_name(std::string(name), known) + "\"");
}

double schedule_factor(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  const double left = static_cast<double>(std::max<int64_t>(s.total_steps - step, 0));
  if (s.kind == ScheduleKind::kConstant) return 1.0;
  if (s.kind == ScheduleKind::kWsd) {
    if (s.decay_steps <= 0 || left >= static_cast<double>(s.decay_steps)) return 1.0;
    return s.final_ratio + (1.0 - s.final_ratio) * left / static_cast<double>(s.decay_steps);
  }
  const double span = static_cast<double>(std::max<int64_t>(s.total_steps - s.warmup_steps, 1));
  const double remaining = std::min(left / span, 1.0);
  if (s.kind == ScheduleKind::kLinear) return s.final_ratio + (1.0 - s.final_ratio) * remaining;
  constexpr double kPi = 3.14159265358979323846;
  const double half = 0.5 * (1.0 + exact_cos(kPi * (1.0 - remaining)));
  return s.final_ratio + (1.0 - s.final_ratio) * half;
}

}  // namespace mainspring

// Typed reads of a loss's settings, after complete_settings (losses.h) has filled them in.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/base/check.h"
#include "mainspring/base/status.h"
#include "mainspring/losses/objective.h"

namespace mainspring {

/// Precondition: the setting is there.
inline double setting(const LossSettings& settings, std::string_view name) {
  const auto found = settings.find(name);
  MS_CHECK(found != settings.end(), "a loss reads a setting that its table does not have");
  return found->second;
}

/// A choice among whole numbers. Errors: invalid argument for a fraction.
inline Result<int> whole_setting(const LossSettings& settings, std::string_view name) {
  const double value = setting(settings, name);
  const int whole = static_cast<int>(value);
  if (static_cast<double>(whole) == value) return whole;
  return invalid_argument(std::string(name) + ": expected a whole number, got " +
                          std::to_string(value));
}

}  // namespace mainspring

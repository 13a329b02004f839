// EnvSettingsReader: an environment's settings, from strings to checked values.
//
// The one idea: an environment asks for each setting by name with its default and bounds, and
// finish() then says everything that was wrong at once a user can act on: the first bad value with
// what was expected, or a name that nobody asked for with the nearest one that exists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/env/environment.h"

namespace mainspring {

class EnvSettingsReader {
 public:
  /// Holds references: both must outlive it.
  EnvSettingsReader(std::string_view environment, const EnvSettings& settings)
      : environment_(environment), settings_(settings) {}

  int64_t integer(const std::string& name, int64_t fallback, int64_t least, int64_t most);
  double number(const std::string& name, double fallback, double least, double most);
  /// "true" or "false".
  bool flag(const std::string& name, bool fallback);
  /// One of `choices`, the first by default.
  std::string choice(const std::string& name, const std::vector<std::string>& choices);
  std::string text(const std::string& name, const std::string& fallback);
  /// A text that must be given.
  std::string required_text(const std::string& name, std::string_view meaning);

  /// For what only the environment knows to be wrong; the first refusal is kept.
  void refuse(const std::string& name, const std::string& problem);
  /// Errors: invalid argument "environment \"NAME\": setting ...".
  Status finish();

 private:
  const std::string* find(const std::string& name);

  std::string environment_;
  const EnvSettings& settings_;
  std::vector<std::string> known_;
  Status first_refusal_;
};

}  // namespace mainspring

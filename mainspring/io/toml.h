// TOML as a tree that remembers where every key stands. The only adapter to toml++.
//
// The one idea: readers of configuration want "file:line:column" for every refusal, so each value
// carries its place; types are JSON's plus integers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

struct ConfigValue;
struct ConfigEntry;
using ConfigList = std::vector<ConfigValue>;
/// Keys in the order of the file.
using ConfigTable = std::vector<ConfigEntry>;

struct ConfigValue {
  std::variant<bool, int64_t, double, std::string, ConfigList, ConfigTable> value;
  std::string source;  // file name, or "--set"
  int64_t line = 0;    // from 1; 0: no place
  int64_t column = 0;

  bool is_table() const { return std::holds_alternative<ConfigTable>(value); }
  /// "recipes/sft.toml:12:3", or the source alone.
  std::string where() const;
  /// "a string", "an integer", ...
  std::string_view type_name() const;
};

struct ConfigEntry {
  std::string key;
  ConfigValue value;
};

/// The file's tables. Dates and times are refused.
/// Errors: invalid argument "source:line:column: ...".
Result<ConfigTable> parse_toml(std::string_view text, const std::string& source);

/// One TOML value ("3", "[1, 2]", "\"x\""); what is no TOML value is taken as a string.
ConfigValue parse_toml_value_or_string(std::string_view text, const std::string& source);

}  // namespace mainspring

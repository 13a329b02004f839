// Which keywords a schema may have, and what those about one type ask. Internal to sample/.
//
// The one idea: a keyword that would not be kept is refused by name before anything is compiled.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"
#include "mainspring/sample/char_automaton.h"
#include "mainspring/sample/number_range.h"

namespace mainspring {

inline constexpr int64_t kMaxRepeat = 1024;  // of minItems, maxItems, minLength, maxLength

/// Errors: invalid argument for a keyword that is unknown, null, or of the wrong kind.
Status check_keywords(const JsonObject& schema);

/// The keywords that speak of one type, read and checked.
struct TypedKeywords {
  std::set<std::string> types;   // what `type` names; empty: any
  std::set<std::string> spoken;  // types that other keywords speak of
  NumberRange number;
  std::pair<int64_t, int64_t> lengths{0, -1};  // of strings; -1: no limit
  std::shared_ptr<const CharAutomaton> text;   // of pattern and format; null: any
  std::pair<int64_t, int64_t> counts{0, -1};   // of items
  bool are_unique = false;
  std::set<std::string> required;
};

/// Errors: invalid argument with the keyword's path.
Result<TypedKeywords> read_typed_keywords(const JsonObject& schema);

/// The values of `key`, "const" or "enum", that are of the schema's `type`, in their order.
/// Errors: invalid argument if there is none, or for an unknown type.
Result<std::vector<Json>> listed_values(const JsonObject& schema, const std::string& key);

}  // namespace mainspring

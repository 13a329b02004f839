// RowFormat: what kinds of rows a data file may hold, and their names in recipes.
#pragma once

#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

enum class RowFormat {
  kAuto,        // seen from each row's fields
  kChat,        // `messages`, optional `tools`
  kCompletion,  // `prompt` and `completion`: both strings or both message lists; optional `tools`
  kTokens,      // `tokens`, optional `mask`
  kText,        // `text`
  kPreference,  // `prompt`, `chosen`, `rejected`; never seen from the fields, only when asked for
};

/// "auto", "chat", "completion", "tokens", "text". Errors: invalid argument with the nearest name.
Result<RowFormat> row_format_from_name(std::string_view name);
std::string_view row_format_name(RowFormat format);

}  // namespace mainspring

// Fields of a row that look like a mistyped known one.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"

namespace mainspring::cli {

/// A field that is not known is metadata, unless it is nearly the name of one that is. Errors:
/// invalid argument with the field and the name it may be meant for.
Status check_near_names(const JsonObject& row, const std::vector<std::string>& known);

}  // namespace mainspring::cli

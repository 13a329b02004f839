// Which keywords a schema may have, and which of them beside each other. Internal to sample/.
//
// The one idea: a keyword that would not be kept is refused by name before anything is compiled.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"

namespace mainspring {

/// Errors: invalid argument for a keyword that is unknown, null, or beside one of $ref, const, enum
/// and anyOf that decides alone.
Status check_keywords(const JsonObject& schema);

/// The names in `type`; without it those that its other keywords speak of; empty: any.
/// Errors: invalid argument for an unknown name or an empty list.
Result<std::vector<std::string>> types_of(const JsonObject& schema);

/// The values of `const` or `enum` that are of the schema's `type`, in their order.
/// Errors: invalid argument if there is none; those of types_of.
Result<std::vector<Json>> listed_values(const JsonObject& schema);

}  // namespace mainspring

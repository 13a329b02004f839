// Words for refused recipe values: what was got, and which key or choice was probably meant.
//
// The one idea: a hint that misleads is worse than none, so a name is suggested only when it is
// within a typing slip of what was written; else the tables, keys or choices are listed.
#pragma once

#include <string>
#include <vector>

#include "mainspring/io/toml.h"

namespace mainspring {

/// The value as its writer would recognise it: -1, nan, "cosin", [1, "x"]; long texts are cut.
std::string value_text(const ConfigValue& value);

/// The one of `known` within a slip (about a third of its letters) of `name`; "" if none is.
std::string near_name(const std::string& name, const std::vector<std::string>& known);

/// What follows `unknown key "x"`: that it is a table; the nearest key, whose last part may stand
/// for it ("steps": train.steps); else the keys of its table; else all tables.
std::string unknown_key_hint(const std::string& name, const std::vector<std::string>& keys);

}  // namespace mainspring

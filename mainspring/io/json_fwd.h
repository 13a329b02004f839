// The name Json without the library behind it, for headers.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mainspring {

/// An ordered JSON value: keys keep the order of the file.
using Json = nlohmann::ordered_json;

}  // namespace mainspring

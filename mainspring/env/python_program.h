// The Python interpreter behind a name.
//
// The one idea: `python3` may be a launcher (pyenv's shims are shell scripts), which would start
// processes where that is not allowed; so it is asked once who it really is.
#pragma once

#include <string>

#include "mainspring/base/status.h"

namespace mainspring {

/// The path of the interpreter that runs when `name` does. Cost: one start of it.
/// Errors: failed precondition with its own words.
Result<std::string> find_python(const std::string& name);

}  // namespace mainspring

// The end of a command: its status as a message and an exit code.
#pragma once

#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring::cli {

/// 0 for ok; else prints "mainspring <verb>: <message>" to stderr and gives 130 for cancelled, 1
/// for the rest.
int exit_code(std::string_view verb, const Status& status);

}  // namespace mainspring::cli

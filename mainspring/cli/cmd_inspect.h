// `mainspring inspect data|model|plan|checkpoint`: look before, during and after a run.
#pragma once

#include "mainspring/cli/command.h"

namespace mainspring::cli {

/// Adds the four commands. Exit codes: 0; 1 with a message.
void add_inspect(CommandRegistry& registry);

}  // namespace mainspring::cli

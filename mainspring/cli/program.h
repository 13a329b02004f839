// Program: all commands behind one parser. The only place that knows the command-line library.
#pragma once

#include <vector>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

using AddCommand = void (*)(CommandRegistry& registry);

/// Parses and runs one command. Exit codes as in CommandRegistry::add; an unknown command or flag
/// names the nearest one.
int run_program(int argc, char** argv, const std::vector<AddCommand>& commands);

}  // namespace mainspring::cli

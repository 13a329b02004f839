// `mainspring replay RUN --step N`: a recorded step of reinforcement learning again.
#pragma once

#include "mainspring/cli/command.h"

namespace mainspring::cli {

void add_replay(CommandRegistry& registry);

}  // namespace mainspring::cli

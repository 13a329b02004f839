// `mainspring inspect rollout RUN --step N`: a step's rollouts in colour.
#pragma once

#include "mainspring/cli/command.h"

namespace mainspring::cli {

void add_inspect_rollout(CommandRegistry& registry);

}  // namespace mainspring::cli

// `mainspring verify`: the exactness promise on the user's own machine and model, as a table.
#pragma once

#include <string>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct VerifyFlags {
  std::string model;
  std::string dtype = "bf16";
  bool full = false;
};

/// Exit code 0 if every check holds; 1 otherwise.
int run_verify(const VerifyFlags& flags);

void add_verify(CommandRegistry& registry);

}  // namespace mainspring::cli

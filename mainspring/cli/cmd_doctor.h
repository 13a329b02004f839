// `mainspring doctor`: what this machine is, and what that means for a model.
#pragma once

#include <string>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct DoctorFlags {
  std::string model;  // empty: the machine only
};

/// Exit code 0; 1 if a path fails its self-test or the model does not load.
int run_doctor(const DoctorFlags& flags);

void add_doctor(CommandRegistry& registry);

}  // namespace mainspring::cli

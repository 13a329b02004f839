// The makers of the environments, one per file of this folder.
//
// The one idea: an environment is known to the rest only as a row of the table in
// environment_table.cc, which names its maker here.
#pragma once

#include <memory>

#include "mainspring/env/environment.h"

namespace mainspring {

using EnvironmentResult = Result<std::unique_ptr<Environment>>;

EnvironmentResult make_arithmetic_env(const EnvSettings& settings);
EnvironmentResult make_calculator_env(const EnvSettings& settings);
EnvironmentResult make_comparison_env(const EnvSettings& settings);
EnvironmentResult make_countdown_env(const EnvSettings& settings);
EnvironmentResult make_dataset_env(const EnvSettings& settings);
EnvironmentResult make_format_env(const EnvSettings& settings);
EnvironmentResult make_gymnasium_env(const EnvSettings& settings);
EnvironmentResult make_jsonmax_env(const EnvSettings& settings);
EnvironmentResult make_max_env(const EnvSettings& settings);
EnvironmentResult make_openenv_env(const EnvSettings& settings);
EnvironmentResult make_reasoning_gym_env(const EnvSettings& settings);
EnvironmentResult make_sorting_env(const EnvSettings& settings);
EnvironmentResult make_wordguess_env(const EnvSettings& settings);
EnvironmentResult make_worker_env(const EnvSettings& settings);

}  // namespace mainspring

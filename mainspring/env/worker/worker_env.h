// Environments whose episodes are played by worker processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mainspring/env/env_settings.h"
#include "mainspring/env/environment.h"
#include "mainspring/env/worker/worker_pool.h"

namespace mainspring {

/// Reads the settings that all of them have (their text is in environment_table.cc); the command
/// and the worker's own settings are left to the caller.
WorkerPoolOptions read_worker_limits(EnvSettingsReader& reader);

/// A setting that is a JSON object, {} by default.
Json read_json_object(EnvSettingsReader& reader, const std::string& name);

/// What Python workers need of the environment: PYTHONHASHSEED, because the order of a set of texts
/// is drawn anew by each process otherwise, and PYTHONPATH with the folder of mainspring_env, if it
/// is found above the program or the working folder.
std::vector<std::string> python_environment();

/// The command of a module of python/mainspring_env, run by setting "python" ("python3"). The
/// folder is setting "adapter" or, as it lies in a clone, above the program or the working folder.
void set_python_adapter(EnvSettingsReader& reader, const std::string& module,
                        WorkerOptions& options);

/// Starts the pool. Errors: as of WorkerPool::open.
Result<std::unique_ptr<Environment>> make_worker_environment(const std::string& name,
                                                             WorkerPoolOptions options);

}  // namespace mainspring

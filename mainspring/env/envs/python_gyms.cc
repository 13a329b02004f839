// reasoning-gym and gymnasium: environments of Python libraries, through the adapters of
// python/mainspring_env. The one idea: these two differ from `worker` in their command alone.
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/worker/worker_env.h"

namespace mainspring {

EnvironmentResult make_reasoning_gym_env(const EnvSettings& settings) {
  EnvSettingsReader reader("reasoning-gym", settings);
  WorkerPoolOptions options = read_worker_limits(reader);
  set_python_adapter(reader, "reasoning-gym", options.worker);
  options.worker.settings = {
      {"dataset", reader.required_text("dataset", "the data set's name, such as \"leg_counting\"")},
      {"config", read_json_object(reader, "config")},
      {"answer_at", reader.choice("answer_at", {"whole", "trimmed", "last_line", "tag"})},
      {"system", reader.text("system", "")}};
  MS_RETURN_IF_ERROR(reader.finish());
  return make_worker_environment("reasoning-gym", std::move(options));
}

EnvironmentResult make_gymnasium_env(const EnvSettings& settings) {
  EnvSettingsReader reader("gymnasium", settings);
  WorkerPoolOptions options = read_worker_limits(reader);
  set_python_adapter(reader, "gymnasium", options.worker);
  options.worker.settings = {
      {"id", reader.required_text("id", "the environment's id, such as \"FrozenLake-v1\"")},
      {"config", read_json_object(reader, "config")},
      {"max_turns", reader.integer("max_turns", 100, 1, 100000)},
      {"system", reader.text("system", "")}};
  MS_RETURN_IF_ERROR(reader.finish());
  return make_worker_environment("gymnasium", std::move(options));
}

}  // namespace mainspring

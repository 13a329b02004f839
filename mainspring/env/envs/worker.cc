// worker: an environment of the user's own, in a process that speaks JSON lines.
//
// The one idea: the command is all that is known of it; the protocol is in
// docs/howto/add_an_environment.md.
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/worker/worker_env.h"

namespace mainspring {
namespace {

/// A JSON list of strings, or words between blanks.
std::vector<std::string> read_command(EnvSettingsReader& reader) {
  const std::string text =
      reader.required_text("command", "the program and its arguments, such as \"python3 env.py\"");
  std::vector<std::string> words;
  std::string_view rest = trimmed(text);
  if (rest.starts_with('[')) {
    const Result<Json> list = parse_json(rest, "command");
    const bool is_list = list.ok() && list->is_array() && !list->empty();
    for (size_t i = 0; is_list && i < list->size(); ++i) {
      if (!(*list)[i].is_string()) break;
      words.push_back((*list)[i].get<std::string>());
    }
    if (!is_list || words.size() != list->size()) {
      reader.refuse("command", "expected a JSON list of strings, or words between blanks");
    }
    return words;
  }
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest = trimmed(rest.substr(end));
  }
  return words;
}

}  // namespace

EnvironmentResult make_worker_env(const EnvSettings& settings) {
  EnvSettingsReader reader("worker", settings);
  WorkerPoolOptions options = read_worker_limits(reader);
  options.worker.command = read_command(reader);
  options.worker.settings = read_json_object(reader, "settings");
  MS_RETURN_IF_ERROR(reader.finish());
  options.worker.environment = python_environment();
  return make_worker_environment("worker", std::move(options));
}

}  // namespace mainspring

// The table of environments: the one place that knows them all by name.
#include <string>
#include <vector>

#include "mainspring/base/nearest.h"
#include "mainspring/env/environment.h"
#include "mainspring/env/envs/envs.h"

namespace mainspring {
namespace {

struct Row {
  EnvironmentInfo info;
  EnvironmentResult (*make)(const EnvSettings&);
};

const Row kRows[] = {
    {{"max", "the larger of two digits, in token ids; 100 tasks", ""}, make_max_env},
    {{"jsonmax", "the largest of a few numbers, as JSON {\"answer\": n}", "numbers=4 (2 to 10)"},
     make_jsonmax_env},
};

}  // namespace

std::string_view outcome_name(EpisodeOutcome outcome) {
  switch (outcome) {
    case EpisodeOutcome::kOk:
      return "ok";
    case EpisodeOutcome::kTimeout:
      return "timeout";
    case EpisodeOutcome::kCrash:
      return "crash";
    case EpisodeOutcome::kException:
      return "exception";
    case EpisodeOutcome::kGarbage:
      return "garbage";
    case EpisodeOutcome::kMemory:
      return "memory";
  }
  return "unknown";
}

std::string Environment::task_of(uint64_t /*seed*/, uint64_t /*index*/) const { return name(); }

Result<std::unique_ptr<Environment>> make_environment(const std::string& name,
                                                      const EnvSettings& settings) {
  std::vector<std::string> known;
  for (const Row& row : kRows) {
    if (row.info.name == name) return row.make(settings);
    known.emplace_back(row.info.name);
  }
  std::string names;
  for (const std::string& each : known) names += (names.empty() ? "" : ", ") + each;
  return invalid_argument("unknown environment \"" + name + "\"; the nearest is \"" +
                          nearest_name(name, known) + "\"; known: " + names);
}

std::vector<EnvironmentInfo> environment_table() {
  std::vector<EnvironmentInfo> table;
  for (const Row& row : kRows) table.push_back(row.info);
  return table;
}

}  // namespace mainspring

// The table of environments: the one place that knows them all by name.
#include <string>
#include <vector>

#include "mainspring/base/nearest.h"
#include "mainspring/env/environment.h"
#include "mainspring/env/envs/envs.h"

// The settings that all foreign environments have (worker/worker_env.h reads them).
#define MS_WORKER_LIMITS                                                                   \
  "workers=1 (1 to 256), deadline_s=30 (0.01 to 86400), memory_mib=4096 (0: no limit, to " \
  "1048576), fork=false, network=true, max_failures=5 (1 to 1000)"

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
    {{"arithmetic", "the value of an expression",
      "operators=+- (some of +-*/), digits=2 (1 to 9), terms=2 (2 to 8), answer_at=whole "
      "(last_number, last_line, tag)"},
     make_arithmetic_env},
    {{"comparison", "which of two numbers is larger: >, < or =",
      "digits=2 (1 to 6), decimals=0 (0 to 3), answer_at=whole (last_line, tag)"},
     make_comparison_env},
    {{"sorting", "numbers in order",
      "numbers=4 (2 to 30), digits=2 (1 to 9), order=ascending (descending, mixed), partial=0 (0 "
      "to 1), answer_at=whole (last_line, tag)"},
     make_sorting_env},
    {{"countdown", "a target from a few numbers, each used at most once",
      "numbers=4 (2 to 8), max_number=50 (1 to 1000), max_target=999 (1 to 1000000), use=any "
      "(all), format_credit=0.1 (0 to 1), answer_at=whole (last_line, tag)"},
     make_countdown_env},
    {{"calculator", "arithmetic with a calculator to call; several turns",
      "digits=3 (1 to 8), terms=2 (2 to 6), turns=4 (2 to 20), tool_credit=0.1 (0 to 1), "
      "tool_role=tool (user)"},
     make_calculator_env},
    {{"wordguess", "a word of five letters in a few guesses; several turns",
      "guesses=6 (1 to 20), progress=0.2 (0 to 1)"},
     make_wordguess_env},
    {{"format", "rules of form that a text must keep", "rules=2 (1 to 4), partial=0.5 (0 to 1)"},
     make_format_env},
    {{"dataset", "single-turn tasks from a JSONL file",
      "path (must be given), rewards=exact (a weighted sum of exact, numeric, regex, json_schema, "
      "tests), answer_at=whole (last_number, last_line, tag), ignore_case=false, "
      "ignore_blanks=false, tolerance=1e-6 (0 to 1), pattern, schema, test_credit=share (all), "
      "test_seconds=5 (0.1 to 600), test_memory_mib=256 (32 to 1048576), python=python3, system"},
     make_dataset_env},
    {{"worker", "an environment of your own in a process that speaks JSON lines",
      "command (must be given), settings={}, " MS_WORKER_LIMITS},
     make_worker_env},
    {{"reasoning-gym", "any data set of the Python library reasoning-gym",
      "dataset (must be given), config={}, answer_at=whole (trimmed, last_line, tag), system, "
      "python=python3, adapter, " MS_WORKER_LIMITS},
     make_reasoning_gym_env},
    {{"gymnasium", "a Gymnasium environment that can be played in text",
      "id (must be given), config={}, max_turns=100 (1 to 100000), system, python=python3, "
      "adapter, " MS_WORKER_LIMITS},
     make_gymnasium_env},
    {{"openenv", "an environment behind an OpenEnv server, over WebSocket",
      "url (must be given), action_field=text, observation_field (the observation as JSON), "
      "system, "
      "deadline_s=30 (0.01 to 86400), max_turns=100 (1 to 100000)"},
     make_openenv_env},
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

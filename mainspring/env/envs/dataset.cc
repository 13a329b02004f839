// dataset: single-turn tasks from a file of the user's own.
//
// The one idea: a row is a prompt and what its rewards need (an answer, tests, a pattern, a
// schema); which rewards, with which weights, is a setting. Every row is checked when the file is
// opened, so that no run meets a row that cannot be judged.
#include <optional>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/rewards/code_tests.h"
#include "mainspring/env/rewards/reward_sum.h"
#include "mainspring/env/rewards/schema_validator.h"
#include "mainspring/env/rewards/text_pattern.h"
#include "mainspring/env/rewards/text_rewards.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

struct TaskRow {
  std::vector<EnvMessage> messages;
  std::optional<std::string> answer;
  std::vector<std::string> tests;
  std::shared_ptr<const TextPattern> pattern;
  std::shared_ptr<const SchemaValidator> schema;
  std::string task;  // what statistics are kept by
};

struct DatasetOptions {
  std::string path;
  std::vector<RewardWeight> rewards;
  AnswerPlace place = AnswerPlace::kWhole;
  ExactMatchOptions exact;
  double tolerance = 0;
  bool shares_tests = true;  // the share of the tests that passed; else all or nothing
  std::string system;
  std::shared_ptr<const TextPattern> pattern;  // of rows without one
  std::shared_ptr<const SchemaValidator> schema;
  std::shared_ptr<const CodeTests> code;  // with the reward "tests"

  bool has_reward(std::string_view name) const {
    for (const RewardWeight& each : rewards) {
      if (each.name == name) return true;
    }
    return false;
  }
};

const std::vector<std::string> kRewards = {"exact", "numeric", "regex", "json_schema", "tests"};

Result<std::vector<EnvMessage>> read_prompt(const JsonObject& row) {
  std::vector<EnvMessage> messages;
  if (row.has("prompt") == row.has("messages")) {
    return row.error("prompt", "expected one of \"prompt\" and \"messages\"");
  }
  if (row.has("prompt")) {
    MS_ASSIGN_OR_RETURN(std::string prompt, row.get_string("prompt"));
    messages.push_back({"user", std::move(prompt)});
    return messages;
  }
  const Json& list = *row.find("messages");
  if (!list.is_array() || list.empty()) {
    return row.error("messages",
                     "expected a list of messages, got " + std::string(json_kind(list)));
  }
  for (const Json& each : list) {
    MS_ASSIGN_OR_RETURN(const JsonObject message, JsonObject::from(each, row.where("messages")));
    EnvMessage one;
    MS_ASSIGN_OR_RETURN(one.role, message.get_string("role"));
    MS_ASSIGN_OR_RETURN(one.content, message.get_string("content"));
    messages.push_back(std::move(one));
  }
  return messages;
}

/// An answer may be written as a string or as a number.
Result<std::optional<std::string>> read_answer(const JsonObject& row) {
  const Json* answer = row.find("answer");
  if (answer == nullptr) return std::optional<std::string>();
  if (answer->is_number()) return std::optional<std::string>(json_text(*answer));
  MS_ASSIGN_OR_RETURN(std::string text, row.get_string("answer"));
  return std::optional<std::string>(std::move(text));
}

/// Refuses a row that lacks what a reward needs.
Status check_needs(const JsonObject& row, const TaskRow& task, const DatasetOptions& options) {
  for (const char* reward : {"exact", "numeric"}) {
    if (!options.has_reward(reward)) continue;
    if (!task.answer.has_value()) {
      return row.error("answer",
                       std::string("is missing, which the reward \"") + reward + "\" needs");
    }
  }
  if (options.has_reward("numeric") && !read_number(*task.answer).has_value()) {
    return row.error("answer",
                     "expected a number for the reward \"numeric\", got \"" + *task.answer + "\"");
  }
  if (options.has_reward("tests") && task.tests.empty()) {
    return row.error("tests", "is missing or empty, which the reward \"tests\" needs");
  }
  if (options.has_reward("regex") && task.pattern == nullptr) {
    return row.error("pattern", "is missing, and there is no setting \"pattern\"");
  }
  if (options.has_reward("json_schema") && task.schema == nullptr) {
    return row.error("schema", "is missing, and there is no setting \"schema\"");
  }
  return {};
}

Result<TaskRow> read_row(const JsonObject& row, const DatasetOptions& options) {
  TaskRow task;
  MS_ASSIGN_OR_RETURN(task.messages, read_prompt(row));
  if (!options.system.empty()) {
    task.messages.insert(task.messages.begin(), {"system", options.system});
  }
  MS_ASSIGN_OR_RETURN(task.answer, read_answer(row));
  if (row.has("tests")) {
    MS_ASSIGN_OR_RETURN(task.tests, row.get_strings("tests"));
  }
  MS_ASSIGN_OR_RETURN(task.task, row.get_string_or("task", ""));
  task.pattern = options.pattern;
  if (row.has("pattern")) {
    MS_ASSIGN_OR_RETURN(const std::string text, row.get_string("pattern"));
    Result<TextPattern> pattern = TextPattern::compile(text);
    if (!pattern.ok()) return row.error("pattern", pattern.status().message());
    task.pattern = std::make_shared<TextPattern>(std::move(pattern).value());
  }
  task.schema = options.schema;
  if (row.has("schema")) {
    Result<SchemaValidator> schema = SchemaValidator::compile(*row.find("schema"));
    if (!schema.ok()) return row.error("schema", schema.status().message());
    task.schema = std::make_shared<SchemaValidator>(std::move(schema).value());
  }
  MS_RETURN_IF_ERROR(check_needs(row, task, options));
  return task;
}

Result<std::vector<std::shared_ptr<const TaskRow>>> read_rows(const DatasetOptions& options) {
  MS_ASSIGN_OR_RETURN(const std::string text, read_text_file(options.path, int64_t{1} << 30));
  std::vector<std::shared_ptr<const TaskRow>> rows;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    const std::string place = options.path + ":" + std::to_string(number);
    MS_ASSIGN_OR_RETURN(const Json json, parse_json(line, place));
    MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(json, place));
    MS_ASSIGN_OR_RETURN(TaskRow row, read_row(object, options));
    rows.push_back(std::make_shared<TaskRow>(std::move(row)));
  }
  if (rows.empty()) return invalid_argument(options.path + ": has no rows");
  return rows;
}

Result<double> score_part(const std::string& reward, const Action& action, const TaskRow& row,
                          const DatasetOptions& options) {
  const auto answer = answer_of(action, options.place);
  if (!answer.has_value()) return 0.0;
  if (reward == "exact") return exact_match(*answer, *row.answer, options.exact) ? 1.0 : 0.0;
  if (reward == "numeric") {
    return numeric_match(*answer, *row.answer, options.tolerance) ? 1.0 : 0.0;
  }
  if (reward == "regex") return row.pattern->matches(*answer) ? 1.0 : 0.0;
  if (reward == "json_schema") return row.schema->fulfils_text(*answer) ? 1.0 : 0.0;
  MS_ASSIGN_OR_RETURN(const CodeVerdict verdict, options.code->run(find_code(*answer), row.tests));
  if (!options.shares_tests) return verdict.passed == verdict.total ? 1.0 : 0.0;
  return static_cast<double>(verdict.passed) / static_cast<double>(verdict.total);
}

class DatasetEpisode final : public Episode {
 public:
  DatasetEpisode(std::shared_ptr<const TaskRow> row, std::shared_ptr<const DatasetOptions> options)
      : row_(std::move(row)), options_(std::move(options)) {}

  Observation start() override { return {.messages = row_->messages, .tokens = {}}; }

  Feedback step(const Action& action) override {
    Feedback feedback;
    auto rewards = weighted_rewards(options_->rewards, [&](const std::string& reward) {
      return score_part(reward, action, *row_, *options_);
    });
    if (rewards.ok()) {
      feedback.rewards = std::move(rewards).value();
    } else {
      feedback.outcome = EpisodeOutcome::kException;  // ours: no child could be started
      feedback.message = rewards.status().message();
    }
    return feedback;
  }

 private:
  std::shared_ptr<const TaskRow> row_;
  std::shared_ptr<const DatasetOptions> options_;
};

class DatasetEnvironment final : public Environment {
 public:
  DatasetEnvironment(std::vector<std::shared_ptr<const TaskRow>> rows, DatasetOptions options)
      : rows_(std::move(rows)),
        options_(std::make_shared<const DatasetOptions>(std::move(options))) {}

  std::string name() const override { return "dataset"; }
  int64_t num_tasks() const override { return static_cast<int64_t>(rows_.size()); }
  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    return std::make_unique<DatasetEpisode>(row(seed, index), options_);
  }
  std::string task_of(uint64_t seed, uint64_t index) const override {
    const std::string& task = row(seed, index)->task;
    return task.empty() ? name() : task;
  }

 private:
  const std::shared_ptr<const TaskRow>& row(uint64_t seed, uint64_t index) const {
    return rows_[static_cast<size_t>(task_in_order("dataset", num_tasks(), seed, index))];
  }

  std::vector<std::shared_ptr<const TaskRow>> rows_;
  std::shared_ptr<const DatasetOptions> options_;
};

void read_pattern(EnvSettingsReader& reader, DatasetOptions& options) {
  const std::string text = reader.text("pattern", "");
  if (text.empty()) return;
  Result<TextPattern> pattern = TextPattern::compile(text);
  if (!pattern.ok()) return reader.refuse("pattern", pattern.status().message());
  options.pattern = std::make_shared<TextPattern>(std::move(pattern).value());
}

void read_schema(EnvSettingsReader& reader, DatasetOptions& options) {
  const std::string path = reader.text("schema", "");
  if (path.empty()) return;
  Result<Json> json = read_json_file(path);
  if (!json.ok()) return reader.refuse("schema", json.status().message());
  Result<SchemaValidator> schema = SchemaValidator::compile(std::move(json).value());
  if (!schema.ok()) return reader.refuse("schema", schema.status().message());
  options.schema = std::make_shared<SchemaValidator>(std::move(schema).value());
}

}  // namespace

EnvironmentResult make_dataset_env(const EnvSettings& settings) {
  EnvSettingsReader reader("dataset", settings);
  DatasetOptions options;
  options.path = reader.required_text("path", "a JSONL file of tasks");
  auto rewards = parse_reward_weights(reader.text("rewards", "exact"), kRewards);
  if (rewards.ok()) {
    options.rewards = std::move(rewards).value();
  } else {
    reader.refuse("rewards", rewards.status().message());
  }
  options.place = read_answer_place(reader);
  options.exact = {.ignores_case = reader.flag("ignore_case", false),
                   .ignores_blanks = reader.flag("ignore_blanks", false)};
  options.tolerance = reader.number("tolerance", 1e-6, 0.0, 1.0);
  options.shares_tests = reader.choice("test_credit", {"share", "all"}) == "share";
  options.system = reader.text("system", "");
  read_pattern(reader, options);
  read_schema(reader, options);
  const std::string python = reader.text("python", "python3");
  const CodeLimits limits = {.seconds = reader.number("test_seconds", 5, 0.1, 600),
                             .memory_bytes = reader.integer("test_memory_mib", 256, 32, 1 << 20)
                                             << 20};
  MS_RETURN_IF_ERROR(reader.finish());
  if (options.has_reward("tests")) {
    Result<CodeTests> code = CodeTests::open(python, limits);
    if (!code.ok()) return code.status().with_context("environment \"dataset\": reward \"tests\"");
    options.code = std::make_shared<CodeTests>(std::move(code).value());
  }
  auto rows = read_rows(options);
  if (!rows.ok()) return rows.status().with_context("environment \"dataset\"");
  return std::unique_ptr<Environment>(
      std::make_unique<DatasetEnvironment>(std::move(rows).value(), std::move(options)));
}

}  // namespace mainspring

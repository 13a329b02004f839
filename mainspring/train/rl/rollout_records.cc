#include "mainspring/train/rl/rollout_records.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

std::string folder_of(const std::string& run_dir) { return join_path(run_dir, "rollouts"); }

Json branch_json(const Branch& branch) {
  Json json;
  json["tokens"] = branch.tokens;
  json["sampled"] = branch.sampled;
  // Only sampled tokens have these; the rest follows from the mask.
  Json logprobs = Json::array();
  Json versions = Json::array();
  for (size_t t = 0; t < branch.tokens.size(); ++t) {
    if (branch.sampled[t] == 0) continue;
    logprobs.push_back(json_float(branch.logprobs[t]));
    versions.push_back(branch.versions[t]);
  }
  json["logprobs"] = std::move(logprobs);
  json["versions"] = std::move(versions);
  return json;
}

Result<Branch> branch_from(const JsonObject& json) {
  Branch branch;
  MS_ASSIGN_OR_RETURN(const auto tokens, json.get_ints("tokens"));
  MS_ASSIGN_OR_RETURN(const auto sampled, json.get_ints("sampled"));
  MS_ASSIGN_OR_RETURN(const auto versions, json.get_ints("versions"));
  const Json* logprobs = json.find("logprobs");
  const size_t learned = static_cast<size_t>(
      std::count_if(sampled.begin(), sampled.end(), [](int64_t s) { return s != 0; }));
  if (tokens.size() != sampled.size()) return json.error("sampled", "is not as long as tokens");
  if (versions.size() != learned) return json.error("versions", "has not one per sampled token");
  if (logprobs == nullptr || !logprobs->is_array() || logprobs->size() != learned) {
    return json.error("logprobs", "has not one per sampled token");
  }
  size_t next = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const bool is_sampled = sampled[t] != 0;
    branch.tokens.push_back(static_cast<int32_t>(tokens[t]));
    branch.sampled.push_back(is_sampled ? 1 : 0);
    if (is_sampled && !(*logprobs)[next].is_number()) {
      return json.error("logprobs", "holds something that is no number");
    }
    branch.logprobs.push_back(is_sampled ? (*logprobs)[next].get<float>() : 0.0f);
    branch.versions.push_back(is_sampled ? versions[next] : -1);
    if (is_sampled) ++next;
  }
  return branch;
}

Json sample_json(size_t group, const RolloutGroup& of, size_t index, double advantage) {
  const Trajectory& sample = of.samples[index];
  Json json;
  json["group"] = group;
  json["sample"] = index;
  json["task_index"] = of.task_index;
  json["task"] = of.task;
  json["reward"] = sample.reward;
  json["rewards"] = Json(sample.rewards);
  json["advantage"] = advantage;
  json["outcome"] = outcome_name(sample.outcome);
  if (!sample.message.empty()) json["message"] = sample.message;
  json["turns"] = sample.turns;
  json["truncated"] = sample.is_truncated;
  json["branches"] = Json::array();
  for (const Branch& branch : sample.branches) json["branches"].push_back(branch_json(branch));
  return json;
}

Result<EpisodeOutcome> outcome_from(const JsonObject& json) {
  MS_ASSIGN_OR_RETURN(const std::string name, json.get_string("outcome"));
  for (const EpisodeOutcome outcome :
       {EpisodeOutcome::kOk, EpisodeOutcome::kTimeout, EpisodeOutcome::kCrash,
        EpisodeOutcome::kException, EpisodeOutcome::kGarbage, EpisodeOutcome::kMemory}) {
    if (outcome_name(outcome) == name) return outcome;
  }
  return json.error("outcome", "is none of the known ones: \"" + name + "\"");
}

Result<Trajectory> sample_from(const JsonObject& json, std::string_view source) {
  Trajectory sample;
  MS_ASSIGN_OR_RETURN(sample.reward, json.get_number("reward"));
  MS_ASSIGN_OR_RETURN(const JsonObject rewards, json.get_object("rewards"));
  for (const std::string& part : rewards.keys()) {
    MS_ASSIGN_OR_RETURN(sample.rewards[part], rewards.get_number(part));
  }
  MS_ASSIGN_OR_RETURN(sample.outcome, outcome_from(json));
  MS_ASSIGN_OR_RETURN(sample.message, json.get_string_or("message", ""));
  MS_ASSIGN_OR_RETURN(sample.turns, json.get_int("turns"));
  MS_ASSIGN_OR_RETURN(sample.is_truncated, json.get_bool("truncated"));
  const Json* branches = json.find("branches");
  if (branches == nullptr || !branches->is_array()) return json.error("branches", "is missing");
  for (const Json& entry : *branches) {
    MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(entry, source, "branches"));
    MS_ASSIGN_OR_RETURN(Branch branch, branch_from(object));
    sample.branches.push_back(std::move(branch));
  }
  return sample;
}

Status read_line(std::string_view line, const std::string& source, RecordedRollouts& rollouts) {
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(line, source));
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(json, source));
  MS_ASSIGN_OR_RETURN(const int64_t group, object.get_int("group"));
  const int64_t known = std::ssize(rollouts.groups);
  if (group != known && group != known - 1) return object.error("group", "is out of order");
  if (group == known) {
    RolloutGroup& made = rollouts.groups.emplace_back();
    rollouts.advantages.emplace_back();
    MS_ASSIGN_OR_RETURN(made.task_index, object.get_uint("task_index"));
    MS_ASSIGN_OR_RETURN(made.task, object.get_string("task"));
  }
  MS_ASSIGN_OR_RETURN(Trajectory sample, sample_from(object, source));
  MS_ASSIGN_OR_RETURN(const double advantage, object.get_number("advantage"));
  rollouts.groups.back().samples.push_back(std::move(sample));
  rollouts.advantages.back().push_back(advantage);
  return {};
}

Status no_such_step(const std::string& run_dir, int64_t step) {
  const std::vector<int64_t> steps = recorded_steps(run_dir);
  std::string there = "; there are none: is it the folder of a run of kind = \"rl\"?";
  if (!steps.empty()) {
    there = "; there are those of steps " + std::to_string(steps.front()) + " to " +
            std::to_string(steps.back());
  }
  return not_found(run_dir + ": has no rollouts of step " + std::to_string(step) + there);
}

}  // namespace

std::string rollouts_path(const std::string& run_dir, int64_t step) {
  char name[48];
  std::snprintf(name, sizeof(name), "step-%06lld.jsonl", static_cast<long long>(step));
  return join_path(folder_of(run_dir), name);
}

Status write_rollouts(const std::string& run_dir, int64_t step,
                      const std::vector<RolloutGroup>& groups,
                      const std::vector<std::vector<double>>& advantages) {
  MS_RETURN_IF_ERROR(make_directories(folder_of(run_dir)));
  std::string text;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t s = 0; s < groups[g].samples.size(); ++s) {
      text += json_text(sample_json(g, groups[g], s, advantages[g][s])) + "\n";
    }
  }
  return write_file_atomically(rollouts_path(run_dir, step), text);
}

Result<RecordedRollouts> read_rollouts(const std::string& run_dir, int64_t step) {
  const std::string path = rollouts_path(run_dir, step);
  if (!is_regular_file(path)) return no_such_step(run_dir, step);
  MS_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  RecordedRollouts rollouts;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string source = path + ":" + std::to_string(++number);
    MS_RETURN_IF_ERROR(
        read_line(std::string_view(text).substr(begin, end - begin), source, rollouts));
    begin = end + 1;
  }
  return rollouts;
}

Status check_complete(const RecordedRollouts& rollouts, const RlRecipe& rl,
                      const std::string& path) {
  const auto expect = [&](const std::string& what, int64_t got, int64_t wanted) -> Status {
    if (got == wanted) return {};
    return data_loss(path + ": expected " + std::to_string(wanted) + " " + what + ", got " +
                     std::to_string(got) + ": lines are missing");
  };
  MS_RETURN_IF_ERROR(expect("groups", std::ssize(rollouts.groups), rl.prompts_per_step));
  for (size_t g = 0; g < rollouts.groups.size(); ++g) {
    MS_RETURN_IF_ERROR(expect("samples of group " + std::to_string(g),
                              std::ssize(rollouts.groups[g].samples), rl.group_size));
  }
  return {};
}

std::vector<int64_t> recorded_steps(const std::string& run_dir) {
  std::vector<int64_t> steps;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(run_dir), none)) {
    const std::string name = entry.path().filename().string();
    long long step = -1;
    int used = 0;
    if (std::sscanf(name.c_str(), "step-%lld.jsonl%n", &step, &used) == 1 &&
        used == static_cast<int>(name.size())) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Status sweep_rollouts(const std::string& run_dir, int64_t last_step, int64_t keep) {
  if (!is_directory(folder_of(run_dir))) return {};
  const Result<int64_t> swept = remove_temporaries(folder_of(run_dir));
  if (!swept.ok()) return swept.status();
  return prune_rollouts(run_dir, last_step, keep);
}

Status prune_rollouts(const std::string& run_dir, int64_t last_step, int64_t keep) {
  for (const int64_t step : recorded_steps(run_dir)) {
    const bool is_old = keep > 0 && step <= last_step - keep;
    if (step > last_step || is_old) MS_RETURN_IF_ERROR(remove_tree(rollouts_path(run_dir, step)));
  }
  return {};
}

}  // namespace mainspring

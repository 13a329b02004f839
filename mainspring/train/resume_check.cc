#include "mainspring/train/resume_check.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

// The others decide what is trained; a new key does so until it is named here.
constexpr std::string_view kFree[] = {
    "title",
    "data.files",
    "data.weights",
    "data.eval_files",
    "data.stall_timeout_s",
    "train.steps",
    "train.micro_batch_rows",
    "train.recompute",
    "train.max_grad_norm",
    "train.max_bad_steps",
    "train.max_spikes",
    "train.eval_every",
    "train.eval_rows",
    "train.ema_eval",
    "train.sample_prompts",
    "train.sample_tokens",
    "train.disabled_passes",
    "rl.eval_every",
    "rl.eval_prompts",
    "rl.sampler_batch",
    "rl.keep_rollouts",
};

bool may_change(const std::string& key) {
  // Which states there are: a checkpoint has them.
  if (key == "optim.optimizer" || key == "optim.groups" || key == "optim.state") return false;
  return key.starts_with("optim.") || key.starts_with("checkpoint.") ||
         std::find(std::begin(kFree), std::end(kFree), key) != std::end(kFree);
}

bool is_one_model(const Json& a, const Json& b) {
  if (!a.is_string() || !b.is_string()) return false;
  std::error_code error;
  return std::filesystem::equivalent(a.get<std::string>(), b.get<std::string>(), error);
}

bool is_same(const std::string& key, const std::string& was, const std::string& now) {
  if (was == now) return true;
  const Json a = Json::parse(was, nullptr, /*allow_exceptions=*/false);
  const Json b = Json::parse(now, nullptr, /*allow_exceptions=*/false);
  return (!a.is_discarded() && a == b) || (key == "model.path" && is_one_model(a, b));
}

}  // namespace

std::vector<RecipeChange> changes_between(const std::vector<RecipeValue>& was,
                                          const std::vector<RecipeValue>& now) {
  std::map<std::string, std::string> before;
  for (const RecipeValue& value : was) before[value.key] = value.json;
  std::vector<RecipeChange> changes;
  for (const RecipeValue& value : now) {
    const auto found = before.find(value.key);
    if (found == before.end() || is_same(value.key, found->second, value.json)) continue;
    changes.push_back({value.key, found->second, value.json});
  }
  return changes;
}

Status check_changes(const std::vector<RecipeChange>& changes) {
  std::string refused;
  for (const RecipeChange& change : changes) {
    if (may_change(change.key)) continue;
    refused += (refused.empty() ? "the run was made with " : "; with ") + change.key + " " +
               change.was + ", the recipe says " + change.now;
  }
  if (refused.empty()) return {};
  return failed_precondition(refused + "; set it back, or train into another run folder");
}

std::string changes_text(const std::vector<RecipeChange>& changes) {
  std::string text;
  for (const RecipeChange& change : changes) {
    text += (text.empty() ? "" : ", ") + change.key + " " + change.was + " -> " + change.now;
  }
  return text;
}

}  // namespace mainspring

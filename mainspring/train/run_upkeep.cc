#include "mainspring/train/run_upkeep.h"

#include <utility>

#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;  // "Clang 19.1.7 ..."
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

}  // namespace

Result<std::vector<RecipeChange>> compare_with_run(const std::string& run_dir,
                                                   const Recipe& recipe) {
  MS_ASSIGN_OR_RETURN(const auto was, read_run_recipe(run_dir));
  std::vector<RecipeChange> changes = changes_between(was, recipe.values);
  if (list_checkpoints(join_path(run_dir, "checkpoints")).empty()) return changes;
  MS_RETURN_IF_ERROR(check_changes(changes).with_context(run_dir));
  return changes;
}

Result<std::optional<Checkpoint>> checkpoint_to_resume(
    RunFolder& folder, const Recipe& recipe, const std::function<void(const std::string&)>& say) {
  MS_ASSIGN_OR_RETURN(NewestCheckpoint newest, load_newest_checkpoint(folder.checkpoints_dir()));
  for (const std::string& rejected : newest.rejected) {
    const std::string message = "checkpoint not used: " + rejected;
    if (say) say(message);
    MS_RETURN_IF_ERROR(
        folder.append_event({.kind = "warning", .step = 0, .message = message, .fields = {}}));
  }
  if (!newest.checkpoint.has_value()) {
    if (say) say("no checkpoint yet: starting at step 0");
    return std::optional<Checkpoint>();
  }
  const Checkpoint& checkpoint = *newest.checkpoint;
  if (checkpoint.state.seed != recipe.seed) {
    return failed_precondition(checkpoint.path + ": was made with seed " +
                               std::to_string(checkpoint.state.seed) + ", the recipe says " +
                               std::to_string(recipe.seed));
  }
  if (checkpoint.state.step > recipe.train.steps) {
    const std::string done = std::to_string(checkpoint.state.step);
    return failed_precondition(folder.dir() + ": has done " + done + " steps, train.steps is " +
                               std::to_string(recipe.train.steps) + ": to go on, set it above " +
                               done);
  }
  return std::move(newest.checkpoint);
}

RunInfo make_run_info(const Recipe& recipe, std::map<std::string, std::string> facts,
                      const LoadedModel& model, const Executor& executor) {
  RunInfo info{.title = recipe.title,
               .recipe = recipe.values,
               .versions = {{"mainspring", "0.1.0"}, {"compiler", kCompiler}},
               .seeds = {{"seed", recipe.seed}},
               .facts = std::move(facts),
               .total_steps = recipe.train.steps};
  info.facts["model"] = model.path;
  info.facts["executor"] = std::string(executor.name());
  info.facts["threads"] = std::to_string(executor.num_threads());
  info.facts["parameters"] = std::to_string(model.num_parameters);
  return info;
}

Status note_start(RunFolder& folder, int64_t step, bool resumed,
                  const std::vector<RecipeChange>& changes,
                  const std::function<void(const std::string&)>& say) {
  std::string message = "started";
  if (resumed) {
    message = "resumed at step " + std::to_string(step);
    if (!changes.empty()) message += " with " + changes_text(changes);
    if (say) say(message);
  }
  return folder.append_event(
      {.kind = resumed ? "resume" : "start", .step = step, .message = message, .fields = {}});
}

Status report_saves_of(CheckpointWriter& writer, RunFolder& folder, Progress& progress,
                       std::string& newest) {
  for (const SaveReport& report : writer.take_reports()) {
    RunEvent event{.kind = "checkpoint",
                   .step = report.step,
                   .message = report.path,
                   .fields = {{"digest", report.digest}}};
    if (report.status.ok()) {
      newest = report.path;
    } else {
      event = {.kind = "warning",
               .step = report.step,
               .message = "save of step " + std::to_string(report.step) +
                          " failed: " + report.status.to_string(),
               .fields = {}};
      progress.message(event.message);
    }
    MS_RETURN_IF_ERROR(folder.append_event(event));
  }
  return {};
}

}  // namespace mainspring

#include "mainspring/train/rl/replay.h"

#include <cmath>
#include <optional>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/run/lines_file.h"
#include "mainspring/run/records.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/checkpointing.h"
#include "mainspring/train/rl/rl_learner.h"
#include "mainspring/train/rl/rl_setup.h"
#include "mainspring/train/rl/rollout_records.h"

namespace mainspring {
namespace {

Result<Recipe> recipe_of_run(const std::string& run_dir) {
  const std::string source = join_path(run_dir, "run.json");
  if (!is_regular_file(source)) {
    return not_found(run_dir + ": has no run.json: is it the folder of a run?");
  }
  MS_ASSIGN_OR_RETURN(const auto values, read_run_recipe(run_dir));
  MS_ASSIGN_OR_RETURN(Recipe recipe, recipe_from_record(values, source));
  if (recipe.kind == "rl") return recipe;
  return invalid_argument(source + ": kind is \"" + recipe.kind +
                          "\": only steps of kind \"rl\" have rollouts to replay");
}

Result<StepMetrics> recorded_metrics(const std::string& run_dir, int64_t step) {
  LinesFile file(join_path(run_dir, "metrics.jsonl"));
  std::optional<StepMetrics> found;
  MS_RETURN_IF_ERROR(file.scan(false, [&](const Json& json) {
    auto metrics = step_metrics_from(json, file.path());
    if (metrics.ok() && metrics->step == step) found = *metrics;
    return metrics.ok() && !found.has_value();
  }));
  if (found.has_value()) return *found;
  return not_found(file.path() + ": has no step " + std::to_string(step));
}

// The newest whole checkpoint that the step comes after.
Result<std::optional<Checkpoint>> checkpoint_before(const std::string& run_dir, int64_t step) {
  const auto entries = list_checkpoints(join_path(run_dir, "checkpoints"));
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->step >= step) continue;
    auto checkpoint = load_checkpoint(entry->path);
    if (checkpoint.ok()) return std::optional<Checkpoint>(std::move(checkpoint).value());
    if (checkpoint.status().code() != StatusCode::kDataLoss) return checkpoint.status();
  }
  return std::optional<Checkpoint>();
}

}  // namespace

Result<ReplayResult> replay_rl_step(const std::string& run_dir, int64_t step, Executor& executor,
                                    const std::function<void(const std::string&)>& say) {
  MS_ASSIGN_OR_RETURN(const Recipe recipe, recipe_of_run(run_dir));
  MS_ASSIGN_OR_RETURN(const StepMetrics recorded, recorded_metrics(run_dir, step));
  MS_ASSIGN_OR_RETURN(const auto checkpoint, checkpoint_before(run_dir, step));
  ReplayResult result{.step = step, .recorded_grad_norm = recorded.grad_norm};
  RlSetup setup;
  MS_RETURN_IF_ERROR(set_up_rl_learner(recipe, executor, setup));
  if (checkpoint.has_value()) {
    MS_RETURN_IF_ERROR(restore_engine(*setup.train.engine, setup.train.id, *checkpoint));
    result.from_step = checkpoint->state.step;
    result.checkpoint = checkpoint->path;
  }
  RlLearner learner(recipe, setup.train);
  for (int64_t s = result.from_step; s < step; ++s) {
    MS_ASSIGN_OR_RETURN(const RecordedRollouts rollouts, read_rollouts(run_dir, s + 1));
    MS_RETURN_IF_ERROR(check_complete(rollouts, recipe.rl, rollouts_path(run_dir, s + 1)));
    MS_ASSIGN_OR_RETURN(RlWork work, learner.pass(rollouts.groups, s));
    MS_RETURN_IF_ERROR(learner.update(work, s));
    if (s + 1 < step) MS_RETURN_IF_ERROR(learner.update_again(work, s));
    result.grad_norm = work.update.grad_norm;
    result.loss = work.result.loss_sum / work.batch.normaliser;
    result.mismatch = work.mismatch;
    result.num_datums = std::ssize(work.batch.datums);
    if (say) {
      say("step " + std::to_string(s + 1) + ": gradient norm " + json_text(Json(result.grad_norm)));
    }
  }
  return result;
}

}  // namespace mainspring

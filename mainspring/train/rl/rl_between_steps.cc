// Between steps: evaluation, checkpoints, and going on from one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mainspring/io/mapped_file.h"
#include "mainspring/train/checkpointing.h"
#include "mainspring/train/rl/rl_run.h"
#include "mainspring/train/rl/rl_samples.h"
#include "mainspring/train/rl/rollout_records.h"

namespace mainspring {
namespace {

// Tasks of evaluations are drawn apart from those of training (an environment with few tasks has no
// others).
constexpr uint64_t kEvaluation = 9;
constexpr size_t kShownAnswers = 4;
constexpr const char* kStatistics = "task_statistics";

}  // namespace

// Greedy replies to the same tasks each time.
Status RlRun::evaluate() {
  const RlRecipe& rl = recipe_.rl;
  const int64_t known = setup_.environment->num_tasks();
  const int64_t num_tasks = known > 0 ? std::min(known, rl.eval_prompts) : rl.eval_prompts;
  std::vector<RolloutTask> tasks;
  for (int64_t i = 0; i < num_tasks; ++i) {
    tasks.push_back({.env_seed = rollout_key(recipe_.seed, kEvaluation, 0, 0),
                     .task_index = static_cast<uint64_t>(i),
                     .key = rollout_key(recipe_.seed, kEvaluation, 1, static_cast<uint64_t>(i))});
  }
  RolloutLaw law = setup_.law;
  law.temperature = 0.0f;
  WaitShares apart;  // none of this is the training's waiting
  Rollouts rollouts(*setup_.sampler, *setup_.environment, setup_.train.text, apart);
  MS_ASSIGN_OR_RETURN(const auto groups, rollouts.run(tasks, 1, law));
  double reward = 0, solved = 0, count = 0;
  for (const RolloutGroup& group : groups) {
    const Trajectory& sample = group.samples[0];
    if (!sample.is_ok()) continue;
    reward += sample.reward;
    solved += sample.reward >= rl.success_reward ? 1.0 : 0.0;
    ++count;
  }
  if (count == 0) {
    return failed_precondition("evaluation: the environment failed at every task; the first: " +
                               groups[0].samples[0].message);
  }
  result_.last_accuracy = solved / count;
  if (std::isnan(result_.first_accuracy)) result_.first_accuracy = result_.last_accuracy;
  const EvalMetrics metrics{
      .step = step_,
      .loss = std::numeric_limits<double>::quiet_NaN(),
      .loss_sum = std::numeric_limits<double>::quiet_NaN(),
      .token_count = count,
      .more = {{"eval/greedy_accuracy", solved / count}, {"eval/reward", reward / count}}};
  progress_->eval(metrics);
  MS_RETURN_IF_ERROR(folder_->append_eval(metrics));
  return show_answers(groups);
}

Status RlRun::show_answers(const std::vector<RolloutGroup>& groups) {
  for (size_t g = 0; g < std::min(groups.size(), kShownAnswers); ++g) {
    MS_ASSIGN_OR_RETURN(
        const RunSample sample,
        answer_sample(setup_.train.text, groups[g].samples[0], step_, "task " + std::to_string(g)));
    MS_RETURN_IF_ERROR(folder_->append_sample(sample));
    if (step_ == 0 || step_ == recipe_.train.steps) {
      progress_->message(answer_line(setup_.train.text, groups[g].samples[0]));
    }
  }
  return {};
}

Status RlRun::save() {
  TrainState state{.step = step_,
                   .seed = recipe_.seed,
                   .data = {},
                   .extra = {{kStatistics, statistics_.text()}},
                   .eval_loss = {}};
  MS_ASSIGN_OR_RETURN(CheckpointContent content,
                      checkpoint_content(*setup_.train.engine, setup_.train.id, std::move(state)));
  MS_RETURN_IF_ERROR(writer_->start(std::move(content)));
  saved_step_ = step_;
  save_awaits_loss_ = true;
  return {};
}

Status RlRun::report_saves() {
  return report_saves_of(*writer_, *folder_, *progress_, result_.newest_checkpoint);
}

Status RlRun::compare_recipe() {
  MS_ASSIGN_OR_RETURN(changes_, compare_with_run(options_.run_dir, recipe_));
  return {};
}

Status RlRun::resume() {
  MS_ASSIGN_OR_RETURN(const auto found, checkpoint_to_resume(*folder_, recipe_, options_.say));
  if (!found.has_value()) {
    MS_RETURN_IF_ERROR(sweep_rollouts(folder_->dir(), 0, 0));
    return folder_->truncate_after_step(-1);
  }
  const Checkpoint& checkpoint = *found;
  MS_RETURN_IF_ERROR(restore_engine(*setup_.train.engine, setup_.train.id, checkpoint));
  const auto statistics = checkpoint.state.extra.find(kStatistics);
  if (statistics == checkpoint.state.extra.end()) {
    return invalid_argument(checkpoint.path + ": is of a run of another kind than \"rl\"");
  }
  MS_RETURN_IF_ERROR(statistics_.restore(statistics->second).with_context(checkpoint.path));
  step_ = saved_step_ = checkpoint.state.step;
  expected_loss_ = checkpoint.next_loss_sum;
  say("resuming from " + checkpoint.path);
  MS_RETURN_IF_ERROR(sweep_rollouts(folder_->dir(), step_, recipe_.rl.keep_rollouts));
  return folder_->truncate_after_step(step_);
}

}  // namespace mainspring

// A run from its start to its end.
#include "mainspring/train/rl/rl_trainer.h"

#include <limits>

#include "mainspring/train/rl/rl_run.h"

namespace mainspring {

Result<RlResult> RlRun::go() {
  MS_RETURN_IF_ERROR(open());
  if (options_.dry_run) {
    say(plan_text());
    say(setup_.memory_plan);
    return result_;
  }
  Status status;
  if (step_ == 0) status = evaluate();
  while (status.ok() && step_ < recipe_.train.steps && !should_stop()) status = step();
  if (!status.ok()) {
    if (const Status s = finish("failed"); !s.ok()) say(s.to_string());
    return status;
  }
  result_.stopped = step_ < recipe_.train.steps;
  if (saved_step_ != step_ && step_ > 0) MS_RETURN_IF_ERROR(save());
  MS_RETURN_IF_ERROR(finish(result_.stopped ? "stopped" : "finished"));
  result_.steps_done = step_;
  result_.wait_table = shares_.table();
  return result_;
}

// Everything that can refuse does so here, before the folder is touched.
Status RlRun::open() {
  if (recipe_.kind != "rl") {
    return invalid_argument("kind: expected \"rl\", got \"" + recipe_.kind + "\"");
  }
  const double none = std::numeric_limits<double>::quiet_NaN();
  result_.first_reward = result_.last_reward = none;
  result_.first_accuracy = result_.last_accuracy = none;
  if (!options_.dry_run) {
    MS_RETURN_IF_ERROR(check_run_folder(options_.run_dir, options_.resume));
    if (options_.resume) MS_RETURN_IF_ERROR(compare_recipe());
  }
  MS_RETURN_IF_ERROR(set_up_rl(recipe_, executor_, setup_));
  rollouts_.emplace(*setup_.sampler, *setup_.environment, setup_.train.text, shares_);
  learner_.emplace(recipe_, setup_.train);
  if (options_.dry_run) return {};
  MS_ASSIGN_OR_RETURN(folder_,
                      RunFolder::open({.dir = options_.run_dir, .resume = options_.resume}));
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriterOptions{.checkpoints_dir = folder_->checkpoints_dir(),
                              .keep_last = recipe_.checkpoint.keep_last,
                              .keep_best = recipe_.checkpoint.keep_best});
  if (options_.resume) MS_RETURN_IF_ERROR(resume());
  MS_RETURN_IF_ERROR(publish_weights(setup_, step_));
  MS_RETURN_IF_ERROR(write_info());
  say(plan_text());
  say(setup_.memory_plan);
  progress_ = std::make_unique<Progress>(ProgressOptions{
      .total_steps = recipe_.train.steps, .first_step = step_, .head = options_.line_head});
  return note_start(*folder_, step_, options_.resume, changes_, options_.say);
}

Status RlRun::write_info() {
  RunInfo info = make_run_info(recipe_, options_.facts, *setup_.train.model, executor_);
  info.facts["environment"] = setup_.environment->name();
  info.facts["memory plan"] = setup_.memory_plan;
  return folder_->write_info(info);
}

std::string RlRun::plan_text() const {
  const ModelConfig& config = setup_.train.model->config;
  const RlRecipe& rl = recipe_.rl;
  return setup_.train.model->path + ": " + config.family + ", " +
         format_count(static_cast<double>(setup_.train.model->num_parameters)) + " parameters; " +
         recipe_.tune.mode + ", " + recipe_.model.dtype + ", " + std::string(executor_.name()) +
         ", " + format_counted(executor_.num_threads(), "thread") + "; " + rl.algorithm + " in " +
         setup_.environment->name() + "; " + format_counted(recipe_.train.steps, "step") + " of " +
         format_counted(rl.prompts_per_step, "prompt") + " x " +
         format_counted(rl.group_size, "sample") + " of at most " +
         format_counted(rl.max_new_tokens, "token");
}

Status RlRun::finish(const std::string& state) {
  Status saved;
  {
    const WaitShares::Scope scope(shares_, RlActivity::kRecords);
    saved = writer_->wait();
    MS_RETURN_IF_ERROR(report_saves());
    progress_->finish();
    MS_RETURN_IF_ERROR(
        folder_->append_event({.kind = "stop", .step = step_, .message = state, .fields = {}}));
    MS_RETURN_IF_ERROR(folder_->write_report(state));
  }
  result_.report = folder_->dir() + "/report.html";
  return state == "failed" ? Status() : saved.with_context("the last save failed");
}

Result<RlResult> run_rl(const Recipe& recipe, Executor& executor, const TrainOptions& options) {
  return RlRun(recipe, executor, options).go();
}

}  // namespace mainspring

// A run from its start to its end.
#include "mainspring/train/trainer.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "mainspring/io/mapped_file.h"
#include "mainspring/train/training_run.h"
#include "mainspring/weights/digest.h"

namespace mainspring {
namespace {

// What a source has; what was used of it is known only later.
std::string source_text(const SourceReport& report) {
  std::string text = report.name + ": " + format_counted(report.num_rows, "row");
  if (report.num_held_out > 0) text += " (" + std::to_string(report.num_held_out) + " held out)";
  return text;
}

// Data rows behind datums: of a pair, one.
int64_t num_rows_of(const std::vector<Datum>& datums) {
  return std::count_if(datums.begin(), datums.end(), [](const Datum& datum) {
    return datum.role != kRejected && datum.role != kMismatched;
  });
}

}  // namespace

Result<TrainResult> TrainingRun::go() {
  MS_RETURN_IF_ERROR(open());
  if (options_.dry_run) {
    say(plan_text());
    return result_;
  }
  if (step_ == 0) MS_RETURN_IF_ERROR(evaluate());
  // Where a run can go back to from its first steps.
  if (recipe_.train.spikes == "rollback" && saved_step_ < 0) MS_RETURN_IF_ERROR(save());
  while (step_ < recipe_.train.steps && !should_stop()) {
    const Status status = step();
    if (!status.ok()) {
      if (const Status s = finish("failed"); !s.ok()) say(s.to_string());
      return status;
    }
  }
  result_.stopped = step_ < recipe_.train.steps;
  if (saved_step_ != step_ && step_ > 0) MS_RETURN_IF_ERROR(save());
  MS_RETURN_IF_ERROR(finish(result_.stopped ? "stopped" : "finished"));
  result_.steps_done = step_;
  return result_;
}

Result<ProfiledRun> TrainingRun::profile(const ProfileOptions& options) {
  MS_RETURN_IF_ERROR(set_up_parts());
  profiled_.flops = flops_;
  profiled_.description = plan_text();
  for (int64_t i = 0; i < options.warmup_steps; ++i) MS_RETURN_IF_ERROR(step());
  const ProfiledRun fresh{.description = profiled_.description, .flops = profiled_.flops};
  profiled_ = fresh;
  executor_.set_timeline(options.timeline);
  const std::clock_t cpu_start = std::clock();
  Status status;
  {
    const SpanScope all(options.timeline, SpanKind::kGroup, "profile");
    for (int64_t i = 0; i < options.steps && status.ok(); ++i) status = step();
  }
  executor_.set_timeline(nullptr);
  profiled_.cpu_s = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  MS_RETURN_IF_ERROR(status);
  MS_ASSIGN_OR_RETURN(const Engine::State state, setup_.engine->state(setup_.id));
  profiled_.digest = digest_of(state.tensors).hex();
  return profiled_;
}

// A step that is not applied takes another time than one that is.
Status TrainingRun::note_profiled(const StepWork& work) {
  if (!work.update.applied) {
    return failed_precondition("step " + std::to_string(step_) +
                               ": the loss or the gradient is not finite, so there is no update to "
                               "time; lower optim.lr");
  }
  profiled_.num_tokens += work.result.num_tokens;
  profiled_.num_micro_batches += work.result.num_micro_batches;
  profiled_.model_flops += profiled_.flops.of_step(work.datums);
  profiled_.loss_sums.push_back(work.result.loss_sum);
  for (const Datum& datum : work.datums) {
    profiled_.num_learned += std::count_if(datum.weights.begin(), datum.weights.end(),
                                           [](float weight) { return weight != 0.0f; });
  }
  return {};
}

Status TrainingRun::set_up_parts() {
  MS_ASSIGN_OR_RETURN(setup_, set_up(recipe_, executor_));
  MS_ASSIGN_OR_RETURN(flops_, FlopsModel::of(setup_.model->config, trained_part(), executor_));
  batches_.emplace(recipe_.train, *setup_.data);
  return {};
}

// Everything that can refuse does so here, before the folder is touched.
Status TrainingRun::open() {
  MS_RETURN_IF_ERROR(check_run_folder(options_.run_dir, options_.resume));
  if (options_.resume) MS_RETURN_IF_ERROR(compare_recipe());
  MS_RETURN_IF_ERROR(set_up_parts());
  result_.first_eval_loss = result_.last_eval_loss = std::numeric_limits<double>::quiet_NaN();
  result_.num_eval_rows = num_rows_of(setup_.eval_rows);
  if (options_.dry_run) return {};
  MS_ASSIGN_OR_RETURN(folder_,
                      RunFolder::open({.dir = options_.run_dir, .resume = options_.resume}));
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriterOptions{.checkpoints_dir = folder_->checkpoints_dir(),
                              .keep_last = recipe_.checkpoint.keep_last,
                              .keep_best = recipe_.checkpoint.keep_best});
  if (options_.resume) MS_RETURN_IF_ERROR(resume());
  MS_RETURN_IF_ERROR(write_info());
  say(plan_text());
  for (const SourceReport& report : setup_.data->report()) say(source_text(report));
  progress_ = std::make_unique<Progress>(ProgressOptions{
      .total_steps = recipe_.train.steps,
      .first_step = step_,
      .work_until = [batches = BatchSchedule::of(recipe_.train)](
                        int64_t step) { return static_cast<double>(batches.total(step)); },
      .head = options_.line_head});
  MS_RETURN_IF_ERROR(note_start(*folder_, step_, options_.resume, changes_, options_.say));
  return note_mixture();
}

Status TrainingRun::write_info() {
  return folder_->write_info(make_run_info(recipe_, options_.facts, *setup_.model, executor_));
}

std::string TrainingRun::batch_text() const {
  const BatchSchedule batches = BatchSchedule::of(recipe_.train);
  std::string text =
      batches.in_tokens
          ? format_counted(batches.full, "token") + " or more"
          : format_counted(batches.full, recipe_.kind == "preference" ? "pair" : "sequence");
  if (batches.ramp_steps > 0) {
    text += " (from " + std::to_string(batches.from) + ", rising over " +
            format_counted(batches.ramp_steps, "step") + ")";
  }
  return text;
}

std::string TrainingRun::plan_text() const {
  const ModelConfig& config = setup_.model->config;
  const int64_t held_out = num_rows_of(setup_.eval_rows);
  return setup_.model->path + ": " + config.family + ", " +
         format_count(static_cast<double>(setup_.model->num_parameters)) + " parameters; " +
         recipe_.tune.mode + ", " + recipe_.model.dtype + ", " + std::string(executor_.name()) +
         ", " + format_counted(executor_.num_threads(), "thread") + "; " +
         format_counted(setup_.data->num_rows(), "row") + ", " + std::to_string(held_out) +
         " held out; " + format_counted(recipe_.train.steps, "step") + " of " + batch_text() +
         " in micro-batches of at most " +
         format_counted(setup_.engine->options().max_micro_batch_rows, "row");
}

Status TrainingRun::finish(const std::string& state) {
  const Status saved = writer_->wait();
  MS_RETURN_IF_ERROR(report_saves());
  progress_->finish();
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "stop", .step = step_, .message = state, .fields = {}}));
  MS_RETURN_IF_ERROR(folder_->write_report(state));
  result_.report = folder_->dir() + "/report.html";
  return state == "failed" ? Status() : saved.with_context("the last save failed");
}

Result<TrainResult> run_training(const Recipe& recipe, Executor& executor,
                                 const TrainOptions& options) {
  return TrainingRun(recipe, executor, options).go();
}

Result<ProfiledRun> run_profile(const Recipe& recipe, Executor& executor,
                                const ProfileOptions& options) {
  const TrainOptions nothing_written;
  return TrainingRun(recipe, executor, nothing_written).profile(options);
}

}  // namespace mainspring

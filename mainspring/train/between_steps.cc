// Between steps: evaluation, samples and checkpoints.
#include "mainspring/train/answers.h"
#include "mainspring/train/checkpointing.h"
#include "mainspring/train/training_run.h"

namespace mainspring {

Status TrainingRun::evaluate() {
  if (!setup_.eval_rows.empty()) {
    const bool is_preference = recipe_.kind == "preference";
    if (is_preference && !eval_rows_ready_) MS_RETURN_IF_ERROR(prepare(setup_.eval_rows));
    eval_rows_ready_ = true;
    MS_ASSIGN_OR_RETURN(
        const ForwardBackwardResult result,
        setup_.engine->forward(setup_.eval_id, setup_.eval_rows,
                               is_preference ? loss_call() : LossCall("cross_entropy")));
    const double loss = result.loss_sum / normaliser(setup_.eval_rows, result);
    if (result_.num_evals == 0) result_.first_eval_loss = loss;
    result_.last_eval_loss = loss;
    ++result_.num_evals;
    last_eval_ = loss;
    const EvalMetrics metrics{
        .step = step_, .loss = loss, .loss_sum = result.loss_sum, .token_count = result.weight_sum};
    progress_->eval(metrics);
    MS_RETURN_IF_ERROR(folder_->append_eval(metrics));
    if (const auto right = result.metrics.find("rewards/accuracies");
        right != result.metrics.end()) {
      progress_->message(
          "  held-out pairs the right way round: " + std::to_string(right->second.mean()) +
          ", margin " + std::to_string(result.metrics.at("rewards/margins").mean()));
    }
  }
  MS_ASSIGN_OR_RETURN(const auto samples,
                      answer_prompts(*setup_.engine, setup_.eval_id, setup_.text,
                                     {.prompts = recipe_.train.sample_prompts,
                                      .max_tokens = recipe_.train.sample_tokens,
                                      .step = step_}));
  for (const RunSample& sample : samples) {
    MS_RETURN_IF_ERROR(folder_->append_sample(sample));
    progress_->message("  " + sample.pieces[0].text + "  -> " + sample.pieces[1].text);
  }
  return {};
}

Status TrainingRun::save() {
  MS_ASSIGN_OR_RETURN(CheckpointContent content,
                      checkpoint_content(*setup_.engine, setup_.id, train_state()));
  MS_RETURN_IF_ERROR(writer_->start(std::move(content)));
  saved_step_ = step_;
  save_awaits_loss_ = true;
  return {};
}

Status TrainingRun::report_saves() {
  return report_saves_of(*writer_, *folder_, *progress_, result_.newest_checkpoint);
}

}  // namespace mainspring

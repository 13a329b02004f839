// What follows a loss spike: was the step before to blame, and the way back past it.
#include "mainspring/io/atomic_file.h"
#include "mainspring/train/training_run.h"

namespace mainspring {

// True if the batch before this one, usual when it was applied, is a spike now.
Result<bool> TrainingRun::previous_step_spoiled() {
  if (previous_.empty()) return false;
  MS_ASSIGN_OR_RETURN(const ForwardBackwardResult again,
                      setup_.engine->forward(setup_.id, previous_, loss_call()));
  return guard_.is_spike(again.loss_sum / normaliser(previous_, again));
}

// Back to the newest whole checkpoint that the previous step has not touched; its batch is left out
// when its turn comes again. Later checkpoints are removed: a resume must not find them.
Status TrainingRun::roll_back() {
  batches_->leave_out(previous_batch_.samples);
  MS_RETURN_IF_ERROR(writer_->wait());
  MS_RETURN_IF_ERROR(report_saves());
  auto entries = list_checkpoints(folder_->checkpoints_dir());
  while (!entries.empty() && entries.back().step > previous_batch_.step) {
    MS_RETURN_IF_ERROR(remove_tree(entries.back().path));
    entries.pop_back();
  }
  for (; !entries.empty(); entries.pop_back()) {
    const auto checkpoint = load_checkpoint(entries.back().path);
    if (!checkpoint.ok()) continue;
    const int64_t from = step_;
    MS_RETURN_IF_ERROR(restore(*checkpoint));
    save_awaits_loss_ = false;
    MS_RETURN_IF_ERROR(folder_->truncate_after_step(step_));
    return note_spike("step " + std::to_string(from) + " spoiled the weights: back to step " +
                      std::to_string(step_) + ", its batch (samples " +
                      std::to_string(batches_->left_out().back().begin) + " to " +
                      std::to_string(batches_->left_out().back().end - 1) + ") is left out");
  }
  return failed_precondition("a loss spike at step " + std::to_string(step_) +
                             ", and no checkpoint before it to go back to");
}

Status TrainingRun::note_spike(const std::string& what) {
  progress_->message(what);
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "warning", .step = step_, .message = what, .fields = {}}));
  if (++num_spikes_ <= recipe_.train.max_spikes) return {};
  return failed_precondition(std::to_string(num_spikes_) + " loss spikes (last: " + what +
                             "); lower optim.lr or raise "
                             "train.spike_factor");
}

}  // namespace mainspring

// What a checkpoint keeps of a run, and going on from it: from one of an earlier call, or of this
// one after a spike.
#include <algorithm>

#include "mainspring/data/mixture.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/train/checkpointing.h"
#include "mainspring/train/training_run.h"

namespace mainspring {
namespace {

// What the spike guard keeps in a checkpoint.
constexpr const char* kLeftOut = "left_out";
constexpr const char* kSpikeLosses = "spike_losses";
constexpr const char* kNumSpikes = "num_spikes";
constexpr const char* kPrevious = "previous_batch";

}  // namespace

Status TrainingRun::compare_recipe() {
  MS_ASSIGN_OR_RETURN(changes_, compare_with_run(options_.run_dir, recipe_));
  return {};
}

Status TrainingRun::resume() {
  MS_ASSIGN_OR_RETURN(const auto found, checkpoint_to_resume(*folder_, recipe_, options_.say));
  if (!found.has_value()) return folder_->truncate_after_step(0);
  const Checkpoint& checkpoint = *found;
  MS_RETURN_IF_ERROR(restore(checkpoint));
  say("resuming from " + checkpoint.path);
  MS_RETURN_IF_ERROR(folder_->truncate_after_step(step_));
  if (const std::optional<EvalMetrics> first = folder_->first_eval(); first.has_value()) {
    result_.first_eval_loss = first->loss;
    result_.last_eval_loss = last_eval_.value_or(first->loss);
    result_.num_evals = 1;
  }
  return {};
}

Status TrainingRun::restore(const Checkpoint& checkpoint) {
  MS_RETURN_IF_ERROR(restore_engine(*setup_.engine, setup_.id, checkpoint));
  if (const Status data = setup_.data->restore(checkpoint.state.data); !data.ok()) {
    for (const RecipeChange& change : changes_) {
      if (change.key != "data.files") continue;
      return failed_precondition(options_.run_dir + ": the run was made with data.files " +
                                 change.was + ", the recipe says " + change.now + "; " +
                                 data.message());
    }
    return data.with_context(options_.run_dir);
  }
  step_ = checkpoint.state.step;
  saved_step_ = step_;
  // Another mixture gives another next batch than the one whose loss was kept.
  expected_loss_ = mixture_changed(checkpoint.state.data) ? std::nullopt : checkpoint.next_loss_sum;
  last_eval_ = checkpoint.state.eval_loss;
  return restore_guard(checkpoint.state.extra);
}

// Whether the next sample is drawn with other shares than when the state was saved.
bool TrainingRun::mixture_changed(const DataState& saved) const {
  const DataState now = setup_.data->state();
  if (saved.mixture.empty()) return false;  // an older checkpoint only goes with unchanged data
  return mixture_at(now.mixture, now.next_sample).shares !=
         mixture_at(saved.mixture, saved.next_sample).shares;
}

// A mixture that begins with the next sample.
Status TrainingRun::note_mixture() {
  const DataState now = setup_.data->state();
  const MixtureEntry& entry = mixture_at(now.mixture, now.next_sample);
  if (now.mixture.size() < 2 || entry.from_sample != now.next_sample) return {};
  std::vector<std::string> names;
  for (const SourceReport& report : setup_.data->report()) names.push_back(report.name);
  const std::string message = "mixture from sample " + std::to_string(entry.from_sample) +
                              " on: " + mixture_text(entry, names);
  say(message);
  return folder_->append_event(
      {.kind = "mixture", .step = step_, .message = message, .fields = {}});
}

Status TrainingRun::restore_guard(const std::map<std::string, std::string>& extra) {
  const auto value = [&](const char* key) {
    const auto found = extra.find(key);
    return found == extra.end() ? std::string() : found->second;
  };
  batches_->add_left_out(value(kLeftOut));  // a rollback keeps what it has learnt since
  const std::string count = value(kNumSpikes);
  if (!count.empty()) num_spikes_ = std::max<int64_t>(num_spikes_, std::stoll(count));
  MS_RETURN_IF_ERROR(guard_.restore(value(kSpikeLosses)));
  previous_.clear();
  if (recipe_.train.spikes != "rollback" || value(kPrevious).empty()) return {};
  previous_batch_ = parse_origin(value(kPrevious), setup_.data->state());
  MS_ASSIGN_OR_RETURN(previous_, batches_->again(previous_batch_));
  return prepare(previous_);
}

TrainState TrainingRun::train_state() const {
  TrainState state{.step = step_,
                   .seed = recipe_.seed,
                   .data = setup_.data->state(),
                   .extra = {},
                   .eval_loss = last_eval_};
  if (recipe_.train.spikes == "ignore") return state;
  state.extra = {{kLeftOut, batches_->left_out_text()},
                 {kSpikeLosses, guard_.state()},
                 {kNumSpikes, std::to_string(num_spikes_)}};
  if (!previous_.empty()) state.extra[kPrevious] = origin_text(previous_batch_);
  return state;
}

}  // namespace mainspring

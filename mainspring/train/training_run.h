// TrainingRun: one run of a recipe, what is set up once and the loop over steps.
//
// The one idea: the state of a run is here; what is done with it stands in one file per concern:
// trainer.cc (from start to end), train_step.cc, between_steps.cc (evaluation, samples, saves),
// run_resume.cc, spike_recovery.cc. Internal to train/.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/ckpt/writer.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/batch_stream.h"
#include "mainspring/train/preference.h"
#include "mainspring/train/run_upkeep.h"
#include "mainspring/train/setup.h"
#include "mainspring/train/spike_guard.h"
#include "mainspring/train/trainer.h"

namespace mainspring {

class TrainingRun {
 public:
  TrainingRun(const Recipe& recipe, Executor& executor, const TrainOptions& options)
      : recipe_(recipe),
        executor_(executor),
        options_(options),
        guard_(recipe.train.spikes == "ignore" ? 0.0 : recipe.train.spike_factor,
               recipe.train.spike_window) {}

  Result<TrainResult> go();
  Result<ProfiledRun> profile(const ProfileOptions& options);

 private:
  // What a step has taken and given so far.
  struct StepWork {
    std::vector<Datum> datums;
    ForwardBackwardResult result;
    OptimStepResult update;
    bool is_spike = false;
    std::string not_applied;  // why, else empty
    double data_s = 0;
    double pass_s = 0;
    double update_s = 0;

    double normaliser = 1;  // of the summed loss: learned tokens, or what a preference loss judges

    double loss() const { return result.loss_sum / normaliser; }
  };

  // trainer.cc
  Status open();
  Status set_up_parts();
  Status write_info();
  std::string plan_text() const;
  std::string batch_text() const;
  TrainedPart trained_part() const {
    return {recipe_.tune.mode == "full", recipe_.tune.rank, recipe_.tune.targets};
  }
  Status note_profiled(const StepWork& work);
  Status finish(const std::string& state);

  // train_step.cc
  Status step();
  Status pass(StepWork& work);
  Status update(StepWork& work, double rate_factor);
  Status judge(StepWork& work);
  Status prepare(std::vector<Datum>& datums);
  LossCall loss_call() const;
  double normaliser(const std::vector<Datum>& datums, const ForwardBackwardResult& result) const;
  Result<OptimStepResult> apply(double normaliser, double rate_factor);
  Status after_bad_step(const StepWork& work);
  void record_step(const StepWork& work);

  // between_steps.cc
  Status evaluate();
  Status save();
  Status report_saves();

  // run_resume.cc
  Status compare_recipe();
  Status resume();
  Status restore(const Checkpoint& checkpoint);
  bool mixture_changed(const DataState& saved) const;
  Status note_mixture();
  Status restore_guard(const std::map<std::string, std::string>& extra);
  TrainState train_state() const;

  // spike_recovery.cc
  Result<bool> previous_step_spoiled();
  Status roll_back();
  Status note_spike(const std::string& what);

  void say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }
  bool should_stop() const { return options_.should_stop && options_.should_stop(); }
  bool is_due(int64_t every) const {
    return step_ == recipe_.train.steps || (every > 0 && step_ % every == 0);
  }

  const Recipe& recipe_;
  Executor& executor_;
  const TrainOptions& options_;
  TrainSetup setup_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<Progress> progress_;
  FlopsModel flops_;
  int64_t step_ = 0;                   // steps done
  std::vector<RecipeChange> changes_;  // since the run was last started
  int64_t saved_step_ = -1;
  int64_t bad_in_a_row_ = 0;
  bool save_awaits_loss_ = false;
  SpikeGuard guard_;
  std::optional<BatchStream> batches_;  // once set up
  BatchOrigin batch_;                   // this step's
  BatchOrigin previous_batch_;          // the last applied one, for the guard
  std::vector<Datum> previous_;         // its datums; empty: none was applied
  int64_t num_spikes_ = 0;
  std::optional<double> expected_loss_;  // of the first step after a resume
  std::optional<double> last_eval_;
  ReferenceLogprobs reference_;  // of preference losses
  bool eval_rows_ready_ = false;
  TrainResult result_;
  ProfiledRun profiled_;
};

}  // namespace mainspring

// RlRun: one run of kind "rl", what is set up once and the loop over steps.
//
// The one idea: the state of a run is here; what is done with it stands in one file per concern:
// rl_trainer.cc (from start to end), rl_step.cc, rl_between_steps.cc (evaluation, saves, resume).
// Internal to train/rl/.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/ckpt/writer.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/rl/rl_learner.h"
#include "mainspring/train/rl/rl_setup.h"
#include "mainspring/train/rl/rl_trainer.h"
#include "mainspring/train/rl/task_statistics.h"
#include "mainspring/train/run_upkeep.h"

namespace mainspring {

class RlRun {
 public:
  RlRun(const Recipe& recipe, Executor& executor, const TrainOptions& options)
      : recipe_(recipe), executor_(executor), options_(options) {}

  Result<RlResult> go();

 private:
  /// What a step has taken and given so far.
  struct StepWork {
    std::vector<RolloutGroup> groups;
    int64_t sampled_groups = 0;  // those that were replaced included
    int64_t no_variance = 0;     // of these
    bool is_stopped = false;     // between its rounds: nothing was learned
    RlWork learned;
    std::string not_applied;  // why, else empty
  };

  // rl_trainer.cc
  Status open();
  Status write_info();
  std::string plan_text() const;
  Status finish(const std::string& state);

  // rl_step.cc
  Status step();
  Status sample(StepWork& work);
  Result<std::vector<RolloutGroup>> sample_round(int64_t round, int64_t num_tasks);
  Status learn(StepWork& work);
  Status check_resumed_loss(const StepWork& work);
  Status judge(const StepWork& work);
  Status show_group(const StepWork& work);
  Status record(const StepWork& work, const std::array<double, kNumRlActivities>& before);
  std::map<std::string, double> figures(const StepWork& work, double seconds);

  // rl_between_steps.cc
  Status evaluate();
  Status show_answers(const std::vector<RolloutGroup>& groups);
  Status save();
  Status report_saves();
  Status compare_recipe();
  Status resume();

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
  WaitShares shares_;
  RlSetup setup_;
  std::optional<Rollouts> rollouts_;
  std::optional<RlLearner> learner_;
  TaskStatistics statistics_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<Progress> progress_;
  std::vector<RecipeChange> changes_;  // since the run was last started
  int64_t step_ = 0;                   // steps done
  int64_t saved_step_ = -1;
  int64_t bad_in_a_row_ = 0;
  bool save_awaits_loss_ = false;
  std::optional<double> expected_loss_;  // of the first step after a resume
  RlResult result_;
};

}  // namespace mainspring

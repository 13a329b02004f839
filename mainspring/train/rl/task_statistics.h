// TaskStatistics: how often each kind of task was solved, for the record and for a curriculum.
//
// The one idea: counts by task, a function of the rollouts so far, kept in the checkpoint as text;
// a curriculum prefers the tasks whose outcome is most uncertain, since groups that all fail or all
// succeed teach nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/train/rl/trajectory.h"

namespace mainspring {

class TaskStatistics {
 public:
  /// Tasks counted apart at most; further ones are not counted.
  static constexpr size_t kMostTasks = 4096;

  void add(const std::vector<RolloutGroup>& groups, double success_reward);

  /// p (1 - p) with p = (successes + 1) / (attempts + 2): largest for a coin's toss.
  double uncertainty(const std::string& task) const;

  struct Counts {
    int64_t attempts = 0;
    int64_t successes = 0;
  };
  const std::map<std::string, Counts>& counts() const { return counts_; }

  /// For a checkpoint, and back. Errors: invalid argument for a text that is none of these.
  std::string text() const;
  Status restore(const std::string& text);

 private:
  std::map<std::string, Counts> counts_;
};

}  // namespace mainspring

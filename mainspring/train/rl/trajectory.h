// Trajectory: one episode as token ids, from end to end.
//
// The one idea: what the policy saw and wrote is one growing sequence of ids. Turn n + 1 extends
// turn n exactly; where a template rewrites what came before, a new branch is opened instead of
// pretending. Each token knows whether the policy chose it, with which log-probability and under
// which weights. Not for how rewards become a loss (rl_batch.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mainspring/env/environment.h"

namespace mainspring {

/// One sequence; all vectors are as long as `tokens`.
struct Branch {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> sampled;   // 1: the policy chose it
  std::vector<float> logprobs;    // of a sampled token, the model's own law; else 0
  std::vector<int64_t> versions;  // weights that chose it; -1: not sampled

  int64_t num_sampled() const;
};

struct Trajectory {
  std::string prompt;            // the environment's last words before the first reply, for people
  std::vector<Branch> branches;  // in order; later ones were opened by a rewritten history
  std::map<std::string, double> rewards;  // by part, over all turns
  double reward = 0.0;                    // their sum; meaningful for kOk alone
  EpisodeOutcome outcome = EpisodeOutcome::kOk;
  std::string message;  // what went wrong
  int64_t turns = 0;
  bool is_truncated = false;  // a reply ended at a limit

  bool is_ok() const { return outcome == EpisodeOutcome::kOk; }
  int64_t num_sampled() const;
};

/// The samples of one task.
struct RolloutGroup {
  uint64_t task_index = 0;
  std::string task;  // what statistics are kept by
  std::vector<Trajectory> samples;
};

}  // namespace mainspring

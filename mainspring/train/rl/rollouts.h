// Rollouts: episodes of an environment driven through the sampler.
//
// The one idea: all episodes of a batch run at once; a group's common prompt is one request with n
// samples, so it is computed once, and every later turn is a request of its own that finds its
// history in the cache. Random numbers are keyed by (seed, step, task, sample, turn), so neither
// the order of replies nor a restart changes a token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/env/environment.h"
#include "mainspring/models/model_text.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/train/rl/trajectory.h"
#include "mainspring/train/rl/wait_shares.h"

namespace mainspring {

/// The law that replies are sampled from, and their limits.
struct RolloutLaw {
  float temperature = 1.0f;  // 0: greedy
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  int32_t max_new_tokens = 64;
  int64_t max_turns = 1;
  std::vector<int32_t> stop_tokens;
  int32_t adapter = SampleRequest::kBaseOnly;
};

struct RolloutTask {
  uint64_t env_seed = 0;
  uint64_t task_index = 0;
  uint64_t key = 0;  // of its samples' random numbers: rollout_key()
};

/// A key of random numbers from what they are for: Philox over the words.
uint64_t rollout_key(uint64_t seed, uint64_t purpose, uint64_t step, uint64_t index);

class Rollouts {
 public:
  /// Everything outlives it.
  Rollouts(Sampler& sampler, Environment& environment, const ModelText& text, WaitShares& shares)
      : sampler_(sampler), environment_(environment), text_(text), shares_(shares) {}

  /// `group_size` episodes of each task, to their ends. An environment's failure is a trajectory's
  /// outcome. Errors: those of Sampler::check (a prompt that leaves no room names the task), the
  /// template and the tokenizer; failed precondition for logits that are not finite.
  Result<std::vector<RolloutGroup>> run(std::span<const RolloutTask> tasks, int64_t group_size,
                                        const RolloutLaw& law);

 private:
  struct Live;
  struct Batch;

  Status start(Batch& batch, const RolloutTask& task, RolloutGroup& group);
  Status submit_group(Batch& batch, const RolloutTask& task, std::vector<Live*> group);
  Status submit(Batch& batch, std::vector<Live*> lives, uint64_t key);
  Status take(Batch& batch, Live& live, SampleResult result);
  SampleRequest request_of(const Batch& batch, const Live& live) const;

  Sampler& sampler_;
  Environment& environment_;
  const ModelText& text_;
  WaitShares& shares_;
};

}  // namespace mainspring

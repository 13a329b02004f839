// [rl] and [env] of a recipe: what reinforcement learning is asked to do.
//
// The one idea: an algorithm's name is a preset of typed choices (advantage, loss, clip,
// normaliser, KL, groups without variance), each of which a recipe may then set by itself, so a
// published variant is a line and not a trainer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

struct Recipe;

struct EnvRecipe {
  std::string name;
  std::map<std::string, std::string> settings;  // [env.settings], numbers as written
};

struct RlRecipe {
  std::string algorithm = "grpo";

  // What the preset decides.
  std::string advantage = "grpo";
  std::string loss = "ppo";
  double clip_low = 0.2;  // the ratio's bounds are 1 - clip_low and 1 + clip_high
  double clip_high = 0.2;
  std::string normaliser = "sequence_mean";
  std::string kl = "none";
  std::string kl_place = "loss";
  double kl_weight = 0.0;
  std::string no_variance = "keep";
  int64_t overlong_buffer = 0;

  // With advantage "gae": a critic beside the policy.
  double discount = 1.0;
  double gae_lambda = 0.95;
  double value_weight = 0.5;  // of the critic's loss beside the policy's
  double value_clip = 0.0;    // largest step of a value from that at sampling; 0: none

  // What a step is.
  int64_t prompts_per_step = 8;
  int64_t group_size = 8;
  int64_t updates = 1;          // of the weights, on each step's samples
  int64_t max_new_tokens = 64;  // of a turn
  int64_t max_turns = 1;        // of an episode
  int64_t max_tokens = 1024;    // of a whole sequence
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  int64_t resample_rounds = 3;
  bool curriculum = false;
  bool merge_equal = true;

  // What is measured and kept.
  int64_t eval_every = 0;
  int64_t eval_prompts = 64;
  double success_reward = 1.0;  // from which on a task counts as solved
  int64_t sampler_batch = 0;    // samples that run at once; 0: all of a step, at most 512
  int64_t keep_rollouts = 0;    // newest steps whose rollouts stay in the run folder; 0: all
};

/// The table of presets: name and, in words, what it sets.
struct RlAlgorithm {
  std::string_view name;
  void (*apply)(RlRecipe& rl);
};
std::vector<std::string> rl_algorithm_names();

/// Keys that an algorithm decides unless the recipe gives them.
const std::vector<std::string>& rl_preset_keys();

/// Whether the policy has a critic: a scalar head on the same weights.
inline bool has_critic(const RlRecipe& rl) { return rl.advantage == "gae"; }

/// Sets what `rl.algorithm` decides. Precondition: a name of the table.
void apply_rl_algorithm(RlRecipe& rl);

/// Combinations of a recipe with kind = "rl" that are refused.
Status check_rl(const Recipe& recipe);

}  // namespace mainspring

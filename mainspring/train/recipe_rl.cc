#include "mainspring/train/recipe_rl.h"

#include <algorithm>

#include "mainspring/base/check.h"
#include "mainspring/train/recipe.h"

namespace mainspring {
namespace {

// Each starts from RlRecipe's defaults, so only differences stand here.
constexpr RlAlgorithm kAlgorithms[] = {
    // Shao et al. 2024, arXiv:2402.03300; without a KL term, as now usual.
    {"grpo", [](RlRecipe&) {}},
    // Liu et al. 2025, arXiv:2503.20783: no division by the group's deviation or by lengths.
    {"dr_grpo",
     [](RlRecipe& rl) {
       rl.advantage = "grpo_no_std";
       rl.normaliser = "constant";
     }},
    // Yu et al. 2025, arXiv:2503.14476: clip higher, dynamic sampling, token-level sum.
    {"dapo",
     [](RlRecipe& rl) {
       rl.clip_high = 0.28;
       rl.normaliser = "token_sum";
       rl.no_variance = "resample";
     }},
    // Schulman et al. 2017, arXiv:1707.06347, with a critic and GAE (arXiv:1506.02438).
    {"ppo",
     [](RlRecipe& rl) {
       rl.advantage = "gae";
       rl.normaliser = "token_sum";
     }},
    // Ahmadian et al. 2024, arXiv:2402.14740.
    {"rloo",
     [](RlRecipe& rl) {
       rl.advantage = "rloo";
       rl.loss = "importance_sampling";
       rl.normaliser = "constant";
     }},
    // Hu et al. 2025, arXiv:2501.03262: rewards normalised over the batch, KL in the reward.
    {"reinforce_pp",
     [](RlRecipe& rl) {
       rl.advantage = "reinforce_pp";
       rl.normaliser = "token_sum";
       rl.kl = "k1";
       rl.kl_place = "reward";
       rl.kl_weight = 0.001;
     }},
    {"reinforce_pp_baseline",
     [](RlRecipe& rl) {
       rl.advantage = "reinforce_pp_baseline";
       rl.normaliser = "token_sum";
       rl.kl = "k2";
       rl.kl_weight = 0.001;
     }},
    // Zheng et al. 2025, arXiv:2507.18071: the sequence's ratio.
    {"gspo",
     [](RlRecipe& rl) {
       rl.loss = "gspo";
       rl.clip_low = 3e-4;
       rl.clip_high = 4e-4;
     }},
    // MiniMax 2025, arXiv:2506.13585: clipped importance weights, every token keeps its gradient.
    {"cispo",
     [](RlRecipe& rl) {
       rl.loss = "cispo";
       rl.clip_low = 1.0;
       rl.clip_high = 2.0;
       rl.normaliser = "token_sum";
     }},
};

Status belongs(const std::string& key, const std::string& to) {
  return invalid_argument(key + " belongs to " + to);
}

Status at_most(const std::string& key, int64_t value, int64_t most) {
  if (value <= most) return {};
  return invalid_argument(key + ": expected at most " + std::to_string(most) + ", got " +
                          std::to_string(value));
}

// What a step can hold; beyond it sizes would not fit their types, or any machine.
Status check_most(const RlRecipe& rl) {
  constexpr int64_t kMostSamples = int64_t{1} << 20;
  constexpr int64_t kMostTokens = int64_t{1} << 30;
  MS_RETURN_IF_ERROR(at_most("rl.prompts_per_step", rl.prompts_per_step, kMostSamples));
  MS_RETURN_IF_ERROR(at_most("rl.group_size", rl.group_size, kMostSamples));
  MS_RETURN_IF_ERROR(at_most("rl.prompts_per_step times rl.group_size",
                             rl.prompts_per_step * rl.group_size, kMostSamples));
  MS_RETURN_IF_ERROR(at_most("rl.top_k", rl.top_k, kMostTokens));
  MS_RETURN_IF_ERROR(at_most("rl.max_tokens", rl.max_tokens, kMostTokens));
  MS_RETURN_IF_ERROR(at_most("rl.max_turns", rl.max_turns, kMostSamples));
  MS_RETURN_IF_ERROR(at_most("rl.sampler_batch", rl.sampler_batch, kMostSamples));
  MS_RETURN_IF_ERROR(at_most("rl.updates", rl.updates, kMostSamples));
  MS_RETURN_IF_ERROR(at_most("rl.eval_prompts", rl.eval_prompts, kMostSamples));
  return at_most("rl.resample_rounds", rl.resample_rounds, 1000);
}

// Keys that mean nothing here are refused where they are changed, and the one that is meant is
// named.
Status check_other_kinds_keys(const Recipe& r) {
  const TrainRecipe train;
  const DataRecipe data;
  const struct {
    bool is_changed;
    const char* key;
    const char* instead;
  } keys[] = {
      {r.train.batch_size != train.batch_size, "train.batch_size",
       "rl.prompts_per_step and rl.group_size"},
      {r.train.batch_tokens != train.batch_tokens, "train.batch_tokens", "rl.prompts_per_step"},
      {r.train.batch_ramp_from != train.batch_ramp_from, "train.batch_ramp_from",
       "rl.prompts_per_step"},
      {r.train.batch_ramp_steps != train.batch_ramp_steps, "train.batch_ramp_steps",
       "rl.prompts_per_step"},
      {r.train.eval_every != train.eval_every, "train.eval_every", "rl.eval_every"},
      {r.train.eval_rows != train.eval_rows, "train.eval_rows", "rl.eval_prompts"},
      {!r.train.sample_prompts.empty(), "train.sample_prompts", "rl.eval_prompts"},
      {r.train.sample_tokens != train.sample_tokens, "train.sample_tokens", "rl.max_new_tokens"},
      {r.data.max_tokens != data.max_tokens, "data.max_tokens", "rl.max_tokens"},
      {r.data.held_out != data.held_out, "data.held_out", "rl.eval_prompts"},
      {!r.data.weights.empty(), "data.weights", "env.name"},
      {r.data.format != data.format, "data.format", "env.name"},
  };
  for (const auto& key : keys) {
    if (key.is_changed) {
      return belongs(key.key,
                     "training on rows: with kind = \"rl\" set " + std::string(key.instead));
    }
  }
  return {};
}

Status check_sizes(const RlRecipe& rl) {
  MS_RETURN_IF_ERROR(check_most(rl));
  const bool needs_group =
      rl.advantage != "raw" && rl.advantage != "reinforce_pp" && !has_critic(rl);
  if (needs_group && rl.group_size < 2) {
    return invalid_argument("rl.group_size: rl.advantage = \"" + rl.advantage +
                            "\" compares the samples of a prompt: expected at least 2, got " +
                            std::to_string(rl.group_size));
  }
  if (rl.max_new_tokens >= rl.max_tokens) {
    return invalid_argument("rl.max_new_tokens: expected less than rl.max_tokens (" +
                            std::to_string(rl.max_tokens) + "), got " +
                            std::to_string(rl.max_new_tokens));
  }
  if (rl.overlong_buffer > rl.max_new_tokens) {
    return invalid_argument("rl.overlong_buffer: expected at most rl.max_new_tokens (" +
                            std::to_string(rl.max_new_tokens) + "), got " +
                            std::to_string(rl.overlong_buffer));
  }
  return {};
}

}  // namespace

std::vector<std::string> rl_algorithm_names() {
  std::vector<std::string> names;
  for (const RlAlgorithm& algorithm : kAlgorithms) names.emplace_back(algorithm.name);
  return names;
}

const std::vector<std::string>& rl_preset_keys() {
  static const std::vector<std::string> keys{
      "rl.advantage", "rl.loss",     "rl.clip_low",  "rl.clip_high",   "rl.normaliser",
      "rl.kl",        "rl.kl_place", "rl.kl_weight", "rl.no_variance", "rl.overlong_buffer"};
  return keys;
}

void apply_rl_algorithm(RlRecipe& rl) {
  for (const RlAlgorithm& algorithm : kAlgorithms) {
    if (algorithm.name != rl.algorithm) continue;
    const RlRecipe defaults;
    rl.advantage = defaults.advantage;
    rl.loss = defaults.loss;
    rl.clip_low = defaults.clip_low;
    rl.clip_high = defaults.clip_high;
    rl.normaliser = defaults.normaliser;
    rl.kl = defaults.kl;
    rl.kl_place = defaults.kl_place;
    rl.kl_weight = defaults.kl_weight;
    rl.no_variance = defaults.no_variance;
    rl.overlong_buffer = defaults.overlong_buffer;
    algorithm.apply(rl);
    return;
  }
  MS_CHECK(false, "an algorithm of the table: " + rl.algorithm);
}

Status check_rl(const Recipe& r) {
  if (r.env.name.empty()) {
    return invalid_argument("env.name is missing: the environment of kind = \"rl\"");
  }
  if (!r.data.files.empty() || !r.data.eval_files.empty()) {
    return belongs("data.files",
                   "supervised training: with kind = \"rl\" env.name makes the tasks");
  }
  MS_RETURN_IF_ERROR(check_other_kinds_keys(r));
  if (r.train.spikes != "ignore") {
    return belongs("train.spikes", "supervised training: a policy loss has no usual size");
  }
  if (r.train.z_loss > 0) return belongs("train.z_loss", "supervised training");
  if (r.train.ema > 0) return belongs("train.ema", "supervised training");
  if (r.tune.dropout > 0) {
    return invalid_argument(
        "tune.dropout: with kind = \"rl\" it must be 0: the sampler's policy is the trainer's");
  }
  if (r.rl.keep_rollouts > 0 && r.rl.keep_rollouts < r.checkpoint.every) {
    return invalid_argument("rl.keep_rollouts: expected 0 or at least checkpoint.every (" +
                            std::to_string(r.checkpoint.every) +
                            "), or no step could be replayed, got " +
                            std::to_string(r.rl.keep_rollouts));
  }
  if (r.rl.updates > 1 && r.rl.loss == "policy_gradient") {
    return invalid_argument(
        "rl.updates above 1 needs a loss with a ratio, such as rl.loss = \"ppo\": "
        "\"policy_gradient\" holds for the weights that sampled alone");
  }
  if (has_critic(r.rl) && r.rl.loss == "policy_gradient") {
    return invalid_argument(
        "rl.advantage = \"gae\" needs a loss with an advantage per token, such as rl.loss = "
        "\"ppo\"");
  }
  if (has_critic(r.rl) && r.rl.kl != "none" && r.rl.kl_place == "reward") {
    return invalid_argument(
        "rl.kl_place = \"reward\" with rl.advantage = \"gae\" is not there: set it to \"loss\"");
  }
  if (r.rl.kl == "none" && r.rl.kl_weight > 0) {
    return belongs("rl.kl_weight", "a KL term: set rl.kl to \"k1\", \"k2\" or \"k3\"");
  }
  if (r.rl.kl != "none" && r.rl.kl_weight == 0) {
    return invalid_argument("rl.kl = \"" + r.rl.kl + "\" needs rl.kl_weight > 0");
  }
  return check_sizes(r.rl);
}

}  // namespace mainspring

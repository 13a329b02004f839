#include "mainspring/train/rl/rl_batch.h"

#include <algorithm>
#include <utility>

#include "mainspring/losses/advantage.h"
#include "mainspring/losses/policy_terms.h"

namespace mainspring {
namespace {

constexpr double kDeviationFloor = 1e-4;

PerSample all_rewards(const std::vector<RolloutGroup>& groups, const RlRecipe& rl,
                      const PerSample& penalties) {
  PerSample rewards;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<double>& own = rewards.emplace_back();
    for (size_t s = 0; s < groups[g].samples.size(); ++s) {
      own.push_back(shaped_reward(groups[g].samples[s], rl) -
                    (penalties.empty() ? 0.0 : penalties[g][s]));
    }
  }
  return rewards;
}

// Of the samples that have a reward; 0 for the others.
Result<PerSample> advantages_of(const std::vector<RolloutGroup>& groups, const RlRecipe& rl,
                                const PerSample& penalties) {
  PerSample advantages = all_rewards(groups, rl, penalties);
  std::vector<double> rewards;
  std::vector<int64_t> group_of;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t s = 0; s < groups[g].samples.size(); ++s) {
      if (!groups[g].samples[s].is_ok()) continue;
      rewards.push_back(advantages[g][s]);
      group_of.push_back(static_cast<int64_t>(g));
    }
  }
  // A critic's are per token and come later (critic.h); until then the rewards stand for them.
  MS_ASSIGN_OR_RETURN(const AdvantageKind kind,
                      parse_advantage(has_critic(rl) ? "raw" : rl.advantage));
  MS_ASSIGN_OR_RETURN(const std::vector<double> values,
                      group_advantages({.kind = kind, .eps = kDeviationFloor}, rewards, group_of));
  size_t next = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t s = 0; s < groups[g].samples.size(); ++s) {
      advantages[g][s] = groups[g].samples[s].is_ok() ? values[next++] : 0.0;
    }
  }
  return advantages;
}

// `factor` of 0 learns nothing.
Datum datum_of(const Branch& branch, double advantage, double factor) {
  Datum datum = make_next_token_datum(branch.tokens, branch.sampled);
  std::vector<float>& logprobs = datum.inputs["logprobs"];
  std::vector<float>& advantages = datum.inputs["advantages"];
  for (size_t t = 0; t < datum.weights.size(); ++t) {
    const bool learned = branch.sampled[t + 1] != 0;
    datum.weights[t] = learned ? static_cast<float>(factor) : 0.0f;
    logprobs.push_back(learned ? branch.logprobs[t + 1] : 0.0f);
    advantages.push_back(learned ? static_cast<float>(advantage) : 0.0f);
  }
  return datum;
}

bool is_same_but_for_weights(const Datum& a, const Datum& b) {
  return a.group == b.group && a.tokens == b.tokens && a.inputs == b.inputs &&
         std::equal(a.weights.begin(), a.weights.end(), b.weights.begin(), b.weights.end(),
                    [](float x, float y) { return (x == 0.0f) == (y == 0.0f); });
}

// Adds the datum, or its weights to those of an equal one of its group.
void add_datum(RlBatch& batch, Datum datum, RlBatch::Origin origin, bool merges) {
  for (size_t i = batch.datums.size(); merges && i > 0; --i) {
    Datum& other = batch.datums[i - 1];
    if (other.group != datum.group) break;  // groups stand together
    if (!is_same_but_for_weights(other, datum)) continue;
    for (size_t t = 0; t < datum.weights.size(); ++t) other.weights[t] += datum.weights[t];
    return;
  }
  batch.datums.push_back(std::move(datum));
  batch.origins.push_back(origin);
}

}  // namespace

double shaped_reward(const Trajectory& trajectory, const RlRecipe& rl) {
  if (rl.overlong_buffer == 0) return trajectory.reward;
  return trajectory.reward +
         overlong_penalty(trajectory.num_sampled(), rl.max_new_tokens, rl.overlong_buffer);
}

bool has_no_variance(const RolloutGroup& group, const RlRecipe& rl) {
  std::vector<double> rewards;
  for (const Trajectory& sample : group.samples) {
    if (sample.is_ok()) rewards.push_back(shaped_reward(sample, rl));
  }
  return !has_reward_variance(rewards);
}

Result<RlBatch> make_rl_batch(const std::vector<RolloutGroup>& groups, const RlRecipe& rl,
                              int64_t step, const PerSample& penalties) {
  RlBatch batch;
  MS_ASSIGN_OR_RETURN(batch.advantages, advantages_of(groups, rl, penalties));
  MS_ASSIGN_OR_RETURN(const LengthNormaliser kind, parse_normaliser(rl.normaliser));
  const bool is_plain = rl.loss == "policy_gradient";
  // A penalty per sample needs each sample's own datum.
  const bool merges =
      rl.merge_equal && !has_critic(rl) && !(rl.kl != "none" && rl.kl_place == "reward");
  int64_t num_tokens = 0;
  int64_t num_samples = 0;
  uint64_t index = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool dropped = rl.no_variance != "keep" && has_no_variance(groups[g], rl);
    for (size_t s = 0; s < groups[g].samples.size(); ++s) {
      const Trajectory& sample = groups[g].samples[s];
      ++index;
      const int64_t length = sample.num_sampled();
      if (!sample.is_ok() || length == 0) continue;
      num_tokens += length;
      ++num_samples;
      if (dropped) continue;
      for (const Branch& branch : sample.branches) {
        if (branch.num_sampled() == 0) continue;
        const double advantage = batch.advantages[g][s];
        const double weight = token_weight(kind, length, rl.max_new_tokens);
        Datum datum = datum_of(branch, advantage, is_plain ? weight * advantage : weight);
        datum.group = static_cast<int64_t>(g);
        datum.sample_index = static_cast<uint64_t>(step) << 24 | index;
        add_datum(batch, std::move(datum), {g, s}, merges);
      }
    }
  }
  if (num_samples > 0) batch.normaliser = batch_normaliser(kind, num_samples, num_tokens);
  return batch;
}

PerSample kl_penalties(const std::vector<RolloutGroup>& groups, const RlBatch& batch,
                       const RlRecipe& rl, const std::vector<std::vector<float>>& reference) {
  const KlEstimator kind = parse_kl_estimator(rl.kl).value();
  PerSample penalties;
  for (const RolloutGroup& group : groups) penalties.emplace_back(group.samples.size(), 0.0);
  for (size_t i = 0; i < batch.datums.size(); ++i) {
    const Datum& datum = batch.datums[i];
    const std::vector<float>& own = datum.inputs.at("logprobs");
    double sum = 0.0;
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      const double log_ratio = static_cast<double>(own[t]) - static_cast<double>(reference[i][t]);
      sum += estimate_kl(kind, log_ratio).value;
    }
    penalties[batch.origins[i].group][batch.origins[i].sample] += rl.kl_weight * sum;
  }
  return penalties;
}

LossCall rl_loss_call(const RlRecipe& rl) {
  LossSettings settings;
  if (rl.loss == "ppo" || rl.loss == "cispo" || rl.loss == "gspo") {
    settings = {{"clip_low_threshold", 1.0 - rl.clip_low},
                {"clip_high_threshold", 1.0 + rl.clip_high}};
  }
  if (rl.kl != "none" && rl.kl_place == "loss") {
    settings["kl_coef"] = rl.kl_weight;
    settings["kl_estimator"] = static_cast<double>(parse_kl_estimator(rl.kl).value());
  }
  return {rl.loss == "policy_gradient" ? "cross_entropy" : rl.loss, std::move(settings)};
}

}  // namespace mainspring

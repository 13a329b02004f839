// One step: rollouts, pass, update, and what is written down about it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "mainspring/train/rl/rl_run.h"
#include "mainspring/train/rl/rl_samples.h"
#include "mainspring/train/rl/rollout_records.h"

namespace mainspring {
namespace {

// What a step's random numbers are for (rollout_key).
constexpr uint64_t kSamples = 0;
// Of a curriculum's candidates for each task.
constexpr uint64_t kCandidates = 4;

void add_mean(std::map<std::string, double>& to, const std::string& name, double sum,
              double count) {
  to[name] = count > 0 ? sum / count : 0.0;
}

void add_rewards(const std::vector<RolloutGroup>& groups, double success,
                 std::map<std::string, double>& more) {
  std::map<std::string, std::pair<double, double>> parts;  // sum, count
  std::map<std::string, std::pair<double, double>> solved;
  double sum = 0, squares = 0, count = 0, failed = 0;
  for (const RolloutGroup& group : groups) {
    for (const Trajectory& sample : group.samples) {
      if (!sample.is_ok()) {
        ++failed;
        ++more["episodes/" + std::string(outcome_name(sample.outcome))];
        continue;
      }
      sum += sample.reward;
      squares += sample.reward * sample.reward;
      ++count;
      for (const auto& [part, value] : sample.rewards) parts[part].first += value;
      auto& [hits, tries] = solved[group.task];
      hits += sample.reward >= success ? 1.0 : 0.0;
      ++tries;
    }
  }
  add_mean(more, "reward/mean", sum, count);
  const double mean = more["reward/mean"];
  more["reward/std"] = count > 0 ? std::sqrt(std::max(0.0, squares / count - mean * mean)) : 0.0;
  for (const auto& [part, pair] : parts) add_mean(more, "reward/part/" + part, pair.first, count);
  for (const auto& [task, pair] : solved) {
    add_mean(more, "success/" + task, pair.first, pair.second);
  }
  if (failed > 0) more["episodes/failed"] = failed;
}

void add_lengths(const std::vector<RolloutGroup>& groups, std::map<std::string, double>& more) {
  double tokens = 0, longest = 0, truncated = 0, count = 0, turns = 0, branches = 0, surprise = 0;
  for (const RolloutGroup& group : groups) {
    for (const Trajectory& sample : group.samples) {
      const double length = static_cast<double>(sample.num_sampled());
      tokens += length;
      longest = std::max(longest, length);
      truncated += sample.is_truncated ? 1.0 : 0.0;
      turns += static_cast<double>(sample.turns);
      branches += static_cast<double>(sample.branches.size());
      ++count;
      for (const Branch& branch : sample.branches) {
        for (const float logprob : branch.logprobs) surprise -= static_cast<double>(logprob);
      }
    }
  }
  add_mean(more, "length/mean", tokens, count);
  more["length/max"] = longest;
  add_mean(more, "length/truncated", truncated, count);
  add_mean(more, "length/turns", turns, count);
  if (branches > count) more["length/branches"] = branches / count;
  add_mean(more, "entropy/sampled", surprise, tokens);
}

}  // namespace

// Round r of a step takes the tasks behind those of all rounds before it, so each task index is
// used once in a run and is known from (step, round, place) alone.
Result<std::vector<RolloutGroup>> RlRun::sample_round(int64_t round, int64_t num_tasks) {
  const RlRecipe& rl = recipe_.rl;
  const int64_t rounds = rl.no_variance == "resample" ? rl.resample_rounds + 1 : 1;
  const int64_t first = (step_ * rounds + round) * rl.prompts_per_step;
  std::vector<RolloutTask> tasks;
  for (int64_t i = 0; i < num_tasks; ++i) {
    auto index = static_cast<uint64_t>(first + i);
    if (rl.curriculum) {
      const uint64_t begin = index * kCandidates;
      double best = -1.0;
      for (uint64_t c = begin; c < begin + kCandidates; ++c) {
        const double value = statistics_.uncertainty(setup_.environment->task_of(recipe_.seed, c));
        if (value > best) {
          best = value;
          index = c;
        }
      }
    }
    tasks.push_back(
        {.env_seed = recipe_.seed,
         .task_index = index,
         .key = rollout_key(recipe_.seed, kSamples, static_cast<uint64_t>(step_), index)});
  }
  return rollouts_->run(tasks, rl.group_size, setup_.law);
}

Status RlRun::sample(StepWork& work) {
  const RlRecipe& rl = recipe_.rl;
  const bool resamples = rl.no_variance == "resample";
  std::vector<RolloutGroup> spare;  // without variance, if too few others are found
  const TaskStatistics before = statistics_;
  for (int64_t round = 0; std::ssize(work.groups) < rl.prompts_per_step; ++round) {
    if (round > (resamples ? rl.resample_rounds : 0)) break;
    if (round > 0 && should_stop()) {  // the step begins again when the run goes on
      statistics_ = before;
      work.is_stopped = true;
      return {};
    }
    MS_ASSIGN_OR_RETURN(auto groups,
                        sample_round(round, rl.prompts_per_step - std::ssize(work.groups)));
    statistics_.add(groups, rl.success_reward);
    work.sampled_groups += std::ssize(groups);
    for (RolloutGroup& group : groups) {
      const bool is_flat = has_no_variance(group, rl);
      if (is_flat) ++work.no_variance;
      (is_flat && resamples ? spare : work.groups).push_back(std::move(group));
    }
  }
  while (std::ssize(work.groups) < rl.prompts_per_step && !spare.empty()) {
    work.groups.push_back(std::move(spare.back()));
    spare.pop_back();
  }
  return {};
}

Status RlRun::check_resumed_loss(const StepWork& work) {
  const double got = work.learned.result.loss_sum;
  if (expected_loss_.has_value() && *expected_loss_ != got) {
    return data_loss("resumed at step " + std::to_string(step_) + ": the next loss is " +
                     std::to_string(got) + " but was " + std::to_string(*expected_loss_) +
                     " before: the environment, the program or the machine has changed");
  }
  expected_loss_.reset();
  return {};
}

Status RlRun::learn(StepWork& work) {
  const WaitShares::Scope scope(shares_, RlActivity::kLearner);
  MS_ASSIGN_OR_RETURN(work.learned, learner_->pass(work.groups, step_));
  MS_RETURN_IF_ERROR(check_resumed_loss(work));
  if (save_awaits_loss_) {
    writer_->note_next_loss(work.learned.result.loss_sum);
    save_awaits_loss_ = false;
  }
  {
    const WaitShares::Scope waiting(shares_, RlActivity::kRecords);
    writer_->wait_before_mutation();
    MS_RETURN_IF_ERROR(report_saves());
  }
  MS_RETURN_IF_ERROR(learner_->update(work.learned, step_));
  MS_RETURN_IF_ERROR(learner_->update_again(work.learned, step_));
  const RlWork& learned = work.learned;
  if (learned.is_empty()) {
    work.not_applied = "no group has samples of different rewards";
  } else if (!learned.update.applied) {
    work.not_applied =
        learned.result.finite ? "the gradient is not finite" : "the loss is not finite";
  }
  return {};
}

Status RlRun::judge(const StepWork& work) {
  if (work.learned.is_empty() || work.learned.update.applied) {
    bad_in_a_row_ = 0;
    return {};
  }
  ++bad_in_a_row_;
  const std::string message = "step " + std::to_string(step_) + " not applied: " + work.not_applied;
  progress_->message(message);
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "warning", .step = step_, .message = message, .fields = {}}));
  if (bad_in_a_row_ < recipe_.train.max_bad_steps) return {};
  return failed_precondition(std::to_string(bad_in_a_row_) +
                             " steps in a row were not applied (last cause: " + work.not_applied +
                             "); lower optim.lr");
}

std::map<std::string, double> RlRun::figures(const StepWork& work, double seconds) {
  std::map<std::string, double> more;
  add_rewards(work.groups, recipe_.rl.success_reward, more);
  add_lengths(work.groups, more);
  more["groups/no_variance"] = static_cast<double>(work.no_variance) /
                               static_cast<double>(std::max<int64_t>(1, work.sampled_groups));
  more["groups/sampled"] = static_cast<double>(work.sampled_groups);
  more["mismatch/max_abs"] = work.learned.mismatch;
  more["groups/datums"] = static_cast<double>(work.learned.batch.datums.size());
  more["staleness/max"] = 0.0;  // a step's samples are of the weights it updates
  double learned_tokens = 0;
  for (const Datum& datum : work.learned.batch.datums) {
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      const bool counts = datum.weights[t] != 0.0f && datum.inputs.at("advantages")[t] != 0.0f;
      learned_tokens += counts ? 1.0 : 0.0;
    }
  }
  more["goodput/tokens_per_s"] = seconds > 0 ? learned_tokens / seconds : 0.0;
  if (recipe_.rl.kl != "none") more["kl/reference"] = work.learned.kl_reference;
  for (const auto& [name, metric] : work.learned.result.metrics) {
    more["loss/" + name] = metric.mean();
  }
  const auto shares = shares_.shares();
  for (size_t i = 0; i < shares.size(); ++i) {
    more["wait/" + std::string(rl_activity_name(static_cast<RlActivity>(i)))] = shares[i];
  }
  return more;
}

// The first group with something to learn, at the steps that are evaluated.
Status RlRun::show_group(const StepWork& work) {
  if (!is_due(recipe_.rl.eval_every)) return {};
  for (size_t g = 0; g < work.groups.size(); ++g) {
    if (has_no_variance(work.groups[g], recipe_.rl)) continue;
    MS_ASSIGN_OR_RETURN(const auto samples, group_samples(setup_.train.text, work.groups[g],
                                                          work.learned.batch.advantages[g], step_));
    for (const RunSample& sample : samples) MS_RETURN_IF_ERROR(folder_->append_sample(sample));
    return {};
  }
  return {};
}

Status RlRun::record(const StepWork& work, const std::array<double, kNumRlActivities>& before) {
  const WaitShares::Scope scope(shares_, RlActivity::kRecords);
  const auto after = shares_.seconds();
  std::map<std::string, double> seconds;
  double total = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    const double spent = after[i] - before[i];
    total += spent;
    seconds[std::string(rl_activity_name(static_cast<RlActivity>(i)))] = spent;
  }
  const RlWork& learned = work.learned;
  int64_t tokens = learned.result.num_tokens;
  for (const RolloutGroup& group : work.groups) {
    for (const Trajectory& sample : group.samples) tokens += sample.num_sampled();
  }
  StepMetrics metrics{
      .step = step_,
      .loss = learned.result.loss_sum / learned.batch.normaliser,
      .loss_sum = learned.result.loss_sum,
      .token_count = learned.batch.normaliser,
      .lr = static_cast<double>(learning_rate(recipe_, setup_.train.schedule, step_ - 1)),
      .grad_norm = learned.update.grad_norm,
      .tokens_per_s = static_cast<double>(tokens) / total,
      .seconds = std::move(seconds),
      .peak_bytes = setup_.train.engine->peak_bytes(),
      .applied = learned.update.applied,
      .not_applied = work.not_applied,
      .more = figures(work, total)};
  result_.last_reward = metrics.more["reward/mean"];
  if (std::isnan(result_.first_reward)) result_.first_reward = result_.last_reward;
  if (!(learned.mismatch <= result_.largest_mismatch)) {
    result_.largest_mismatch = learned.mismatch;  // NaN stays
  }
  progress_->step(metrics);
  // The rollouts first: a step that metrics.jsonl has can always be looked at.
  MS_RETURN_IF_ERROR(write_rollouts(folder_->dir(), step_, work.groups, learned.batch.advantages));
  MS_RETURN_IF_ERROR(prune_rollouts(folder_->dir(), step_, recipe_.rl.keep_rollouts));
  if (const Status status = folder_->append_metrics(metrics); !status.ok()) {
    progress_->message("metrics not written: " + status.to_string());
  }
  return show_group(work);
}

Status RlRun::step() {
  const auto before = shares_.seconds();
  StepWork work;
  MS_RETURN_IF_ERROR(sample(work));
  if (work.is_stopped) return {};
  MS_RETURN_IF_ERROR(learn(work));
  ++step_;
  {
    const WaitShares::Scope scope(shares_, RlActivity::kPublication);
    MS_RETURN_IF_ERROR(publish_weights(setup_, step_));
  }
  MS_RETURN_IF_ERROR(record(work, before));
  MS_RETURN_IF_ERROR(judge(work));
  const WaitShares::Scope scope(shares_, RlActivity::kRecords);
  if (is_due(recipe_.rl.eval_every)) MS_RETURN_IF_ERROR(evaluate());
  if (recipe_.checkpoint.every > 0 && step_ % recipe_.checkpoint.every == 0) {
    MS_RETURN_IF_ERROR(save());
  }
  return {};
}

}  // namespace mainspring

#include "mainspring/train/rl/rollouts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mainspring/base/philox.h"
#include "mainspring/train/rl/episode_tokens.h"

namespace mainspring {

uint64_t rollout_key(uint64_t seed, uint64_t purpose, uint64_t step, uint64_t index) {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  const PhiloxCounter first =
      philox4x32({low(step), high(step), low(purpose), high(purpose)}, philox_key(seed));
  const PhiloxCounter mixed = philox4x32({low(index), high(index), first[2], first[3]},
                                         philox_key(uint64_t{first[0]} | uint64_t{first[1]} << 32));
  return uint64_t{mixed[0]} | uint64_t{mixed[1]} << 32;
}

/// An episode that runs.
struct Rollouts::Live {
  explicit Live(const ModelText& text) : tokens(text) {}

  std::unique_ptr<Episode> episode;
  EpisodeTokens tokens;
  Trajectory* trajectory = nullptr;
  uint64_t task_index = 0;
  uint64_t key = 0;  // of this sample
};

struct Rollouts::Batch {
  const RolloutLaw& law;
  std::vector<RolloutGroup> groups;
  std::vector<std::unique_ptr<Live>> lives;
  std::map<int64_t, std::vector<Live*>> waiting;  // by request, then by sample
};

SampleRequest Rollouts::request_of(const Batch& batch, const Live& live) const {
  SampleRequest request;
  request.prompt = live.tokens.tokens();
  request.adapter = batch.law.adapter;
  request.params.max_tokens = batch.law.max_new_tokens;
  request.params.temperature = batch.law.temperature;
  request.params.top_k = batch.law.top_k;
  request.params.top_p = batch.law.top_p;
  request.params.min_p = batch.law.min_p;
  request.params.stop_tokens = batch.law.stop_tokens;
  return request;
}

Status Rollouts::submit(Batch& batch, std::vector<Live*> lives, uint64_t key) {
  SampleRequest request = request_of(batch, *lives.front());
  request.params.n = static_cast<int32_t>(lives.size());
  request.params.seed = key;
  auto id = sampler_.submit(std::move(request));
  if (!id.ok()) {
    return id.status().with_context("task " + std::to_string(lives.front()->task_index) + " of " +
                                    environment_.name());
  }
  batch.waiting[*id] = std::move(lives);
  return {};
}

// Episodes whose first observation is the same share a request; an environment that gives each
// sample another one has a request for each.
Status Rollouts::submit_group(Batch& batch, const RolloutTask& task, std::vector<Live*> group) {
  const auto same = [&](const Live* live) {
    return live->tokens.tokens() == group.front()->tokens.tokens();
  };
  if (std::all_of(group.begin(), group.end(), same)) {
    return submit(batch, std::move(group), task.key);
  }
  for (Live* live : group) MS_RETURN_IF_ERROR(submit(batch, {live}, live->key));
  return {};
}

Status Rollouts::start(Batch& batch, const RolloutTask& task, RolloutGroup& group) {
  std::vector<Live*> lives;
  for (size_t sample = 0; sample < group.samples.size(); ++sample) {
    auto live = std::make_unique<Live>(text_);
    live->trajectory = &group.samples[sample];
    live->task_index = task.task_index;
    live->key = rollout_key(task.key, /*purpose=*/1, 0, sample);
    Observation first;
    {
      const WaitShares::Scope scope(shares_, RlActivity::kEnvironment);
      live->episode = environment_.make_episode(task.env_seed, task.task_index);
      first = live->episode->start();
    }
    if (!first.messages.empty()) live->trajectory->prompt = first.messages.back().content;
    MS_RETURN_IF_ERROR(live->tokens.observe(first));
    lives.push_back(live.get());
    batch.lives.push_back(std::move(live));
  }
  return submit_group(batch, task, std::move(lives));
}

Status Rollouts::take(Batch& batch, Live& live, SampleResult result) {
  if (result.stop_reason == StopReason::kNonFinite) {
    return failed_precondition("task " + std::to_string(live.task_index) +
                               ": the model's logits are not finite; lower optim.lr");
  }
  Trajectory& trajectory = *live.trajectory;
  MS_ASSIGN_OR_RETURN(const Action action, live.tokens.reply(result));
  ++trajectory.turns;
  if (!action.is_complete) trajectory.is_truncated = true;
  Feedback feedback;
  {
    WaitShares::Scope scope(shares_, RlActivity::kEnvironment);
    feedback = live.episode->step(action);
    if (feedback.is_done) scope.rename(RlActivity::kReward);
  }
  for (const auto& [part, value] : feedback.rewards) {
    trajectory.rewards[part] += value;
    trajectory.reward += value;
  }
  trajectory.outcome = feedback.outcome;
  trajectory.message = feedback.message;
  const bool ends = feedback.is_done || feedback.outcome != EpisodeOutcome::kOk;
  const bool at_limit = !ends && (trajectory.turns >= batch.law.max_turns || !action.is_complete);
  if (at_limit) trajectory.is_truncated = true;
  if (!ends && !at_limit) {
    MS_RETURN_IF_ERROR(live.tokens.observe(feedback.next));
    const uint64_t key =
        rollout_key(live.key, /*purpose=*/2, 0, static_cast<uint64_t>(trajectory.turns));
    return submit(batch, {&live}, key);
  }
  trajectory.branches = live.tokens.take();
  live.episode.reset();
  return {};
}

Result<std::vector<RolloutGroup>> Rollouts::run(std::span<const RolloutTask> tasks,
                                                int64_t group_size, const RolloutLaw& law) {
  Batch batch{.law = law, .groups = {}, .lives = {}, .waiting = {}};
  batch.groups.resize(tasks.size());  // before pointers into it are taken
  Status status;
  for (size_t i = 0; i < tasks.size() && status.ok(); ++i) {
    batch.groups[i].task_index = tasks[i].task_index;
    batch.groups[i].task = environment_.task_of(tasks[i].env_seed, tasks[i].task_index);
    batch.groups[i].samples.resize(static_cast<size_t>(group_size));
    status = start(batch, tasks[i], batch.groups[i]);
  }
  while (!sampler_.is_idle()) {
    if (!status.ok()) {  // nothing of this batch stays in the sampler
      for (const auto& [id, lives] : batch.waiting) sampler_.cancel(id);
    }
    std::vector<SampleEvent> events;
    {
      const WaitShares::Scope scope(shares_, RlActivity::kGeneration);
      events = sampler_.step();
    }
    for (SampleEvent& event : events) {
      const auto found = batch.waiting.find(event.request);
      if (!event.result.has_value() || found == batch.waiting.end() || !status.ok()) continue;
      Live& live = *found->second[static_cast<size_t>(event.sample)];
      status = take(batch, live, std::move(*event.result));
    }
  }
  MS_RETURN_IF_ERROR(status);
  return std::move(batch.groups);
}

}  // namespace mainspring

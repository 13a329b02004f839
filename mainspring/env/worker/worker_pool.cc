#include "mainspring/env/worker/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace mainspring {

WorkerPool::WorkerPool(WorkerPoolOptions options) : options_(std::move(options)) {
  for (int64_t i = 0; i < options_.workers; ++i) slots_.push_back(std::make_unique<Slot>());
}

std::string WorkerPool::name_of(const Slot& slot) const {
  const auto place = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const auto& each) { return each.get() == &slot; });
  return "worker " + std::to_string(place - slots_.begin());
}

Status WorkerPool::open() {
  Slot& slot = *slots_[0];
  const std::lock_guard lock(slot.mutex);
  double seconds = options_.deadline_seconds;
  WorkerAnswer answer;
  slot.process = WorkerProcess::start(options_.worker, seconds, answer);
  if (slot.process == nullptr) {
    std::string message = "the worker \"" + options_.worker.command[0] +
                          "\": " + std::string(outcome_name(answer.outcome)) + ": " +
                          answer.message;
    if (!options_.worker.may_fork && message.find("fork") != std::string::npos) {
      message +=
          "; it may start no process (fork = false), which launchers such as pyenv's do: "
          "name the program itself, or set fork = true";
    }
    return failed_precondition(message);
  }
  slot.generation = 1;
  ready_ = answer.body;
  return {};
}

size_t WorkerPool::choose_slot() const {
  size_t best = 0;
  for (size_t i = 1; i < slots_.size(); ++i) {
    const bool is_better = slots_[best]->is_given_up != slots_[i]->is_given_up
                               ? slots_[best]->is_given_up.load()
                               : slots_[i]->num_open < slots_[best]->num_open;
    if (is_better) best = i;
  }
  return best;
}

HostedEpisode WorkerPool::make_episode(uint64_t seed, uint64_t index) {
  HostedEpisode episode;
  episode.id = next_id_++;
  episode.slot = choose_slot();
  episode.seconds_left = options_.deadline_seconds;
  episode.start = {{"type", "start"}, {"episode", episode.id}, {"seed", seed}, {"index", index}};
  return episode;
}

WorkerPool::Slot& WorkerPool::slot_of(HostedEpisode& episode) {
  if (slots_[episode.slot]->is_given_up) {
    if (episode.generation != 0) --slots_[episode.slot]->num_open;
    episode.generation = 0;
    episode.slot = choose_slot();
  }
  return *slots_[episode.slot];
}

WorkerAnswer WorkerPool::note(Slot& slot, WorkerAnswer answer) {
  if (!answer.is_process_lost) return answer;
  answer.message = name_of(slot) + ": " + answer.message;
  slot.process.reset();
  slot.last_failure = answer;
  const auto doubled = std::min<int64_t>(slot.failures, 30);
  ++slot.failures;
  slot.next_start = deadline_in(
      std::min(options_.last_backoff_seconds,
               options_.first_backoff_seconds * static_cast<double>(int64_t{1} << doubled)));
  if (slot.failures >= options_.max_failures) slot.is_given_up = true;
  return answer;
}

WorkerAnswer WorkerPool::ensure_process(Slot& slot, double& seconds) {
  if (slot.process != nullptr) return {};
  if (slot.is_given_up) {
    return {slot.last_failure.outcome,
            name_of(slot) + " is given up after " + std::to_string(slot.failures) +
                " failures in a row; the last: " + slot.last_failure.message,
            {},
            false};
  }
  const auto now = std::chrono::steady_clock::now();
  if (slot.next_start > now) {
    const double pause = std::chrono::duration<double>(slot.next_start - now).count();
    if (pause > seconds) {
      seconds = 0;
      return {EpisodeOutcome::kTimeout,
              name_of(slot) + " is not restarted within the deadline; its last failure: " +
                  slot.last_failure.message,
              {},
              false};
    }
    std::this_thread::sleep_until(slot.next_start);
    seconds -= pause;
  }
  WorkerAnswer answer;
  slot.process = WorkerProcess::start(options_.worker, seconds, answer);
  if (slot.process == nullptr) return note(slot, answer);
  ++slot.generation;
  return {};
}

WorkerAnswer WorkerPool::play_again(Slot& slot, HostedEpisode& episode) {
  if (episode.generation == 0) ++slot.num_open;
  episode.generation = slot.generation;
  WorkerAnswer answer =
      note(slot, slot.process->ask(episode.start, "observation", episode.seconds_left));
  for (const Json& step : episode.steps) {
    if (answer.outcome != EpisodeOutcome::kOk) break;
    answer = note(slot, slot.process->ask(step, "feedback", episode.seconds_left));
  }
  return answer;
}

WorkerAnswer WorkerPool::ask(Slot& slot, HostedEpisode& episode, const Json& request,
                             std::string_view wanted) {
  WorkerAnswer answer = ensure_process(slot, episode.seconds_left);
  if (answer.outcome != EpisodeOutcome::kOk) return answer;
  if (episode.generation != slot.generation) {
    answer = play_again(slot, episode);
    if (answer.outcome != EpisodeOutcome::kOk) return answer;
  }
  return note(slot, slot.process->ask(request, wanted, episode.seconds_left));
}

WorkerAnswer WorkerPool::start(HostedEpisode& episode) {
  Slot& slot = slot_of(episode);
  const std::lock_guard lock(slot.mutex);
  WorkerAnswer answer = ensure_process(slot, episode.seconds_left);
  if (answer.outcome != EpisodeOutcome::kOk) return answer;
  return play_again(slot, episode);
}

WorkerAnswer WorkerPool::step(HostedEpisode& episode, const Json& request) {
  Slot& slot = slot_of(episode);
  const std::lock_guard lock(slot.mutex);
  WorkerAnswer answer = ask(slot, episode, request, "feedback");
  if (answer.outcome == EpisodeOutcome::kOk) episode.steps.push_back(request);
  return answer;
}

WorkerAnswer WorkerPool::close(HostedEpisode& episode, bool is_finished) {
  if (episode.generation == 0) return {};
  Slot& slot = *slots_[episode.slot];
  const std::lock_guard lock(slot.mutex);
  --slot.num_open;
  const bool is_known = slot.process != nullptr && episode.generation == slot.generation;
  episode.generation = 0;
  if (!is_known) return {};
  WorkerAnswer answer = note(slot, slot.process->ask({{"type", "close"}, {"episode", episode.id}},
                                                     "closed", episode.seconds_left));
  if (is_finished && answer.outcome == EpisodeOutcome::kOk) slot.failures = 0;
  return answer;
}

Status WorkerPool::health() const {
  for (const auto& slot : slots_) {
    if (!slot->is_given_up) return {};
  }
  const std::lock_guard lock(slots_[0]->mutex);
  return unavailable("every worker is given up after repeated failure; the last of " +
                     slots_[0]->last_failure.message);
}

}  // namespace mainspring

// WorkerPool: N worker processes that host episodes, restarted and, if need be, given up.
//
// The one idea: an episode is a function of its (seed, index) and the actions so far, so when a
// worker is lost, the episode whose request lost it gets the outcome, and every other one that it
// hosted is played again in the next process as if nothing had happened. Threads: any; a worker
// answers one request at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mainspring/env/worker/worker_process.h"

namespace mainspring {

struct WorkerPoolOptions {
  WorkerOptions worker;
  int64_t workers = 1;
  /// Of an episode: set-up (a process's start included), turns, scoring and teardown together. The
  /// policy's own time does not count, nor does waiting for another episode's answer.
  double deadline_seconds = 30;
  /// Failures without an episode finished between them, after which a worker is given up.
  int64_t max_failures = 5;
  /// The wait before a restart doubles from the first to the last with each such failure.
  double first_backoff_seconds = 0.1;
  double last_backoff_seconds = 10;
};

/// An episode as the pool knows it.
struct HostedEpisode {
  uint64_t id = 0;
  size_t slot = 0;
  uint64_t generation = 0;  // of the slot's process that knows it; 0: none
  double seconds_left = 0;
  Json start;               // the request that opened it
  std::vector<Json> steps;  // those answered so far
};

class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);

  /// Starts the first worker, so that what is wrong is known before work starts.
  /// Errors: failed precondition with the worker's own words.
  Status open();
  /// What the first worker said of itself.
  const Json& ready() const { return ready_; }

  HostedEpisode make_episode(uint64_t seed, uint64_t index);
  /// Opens the episode: the answer is an "observation".
  WorkerAnswer start(HostedEpisode& episode);
  /// A turn: the answer is a "feedback". Precondition: started.
  WorkerAnswer step(HostedEpisode& episode, const Json& request);
  /// Ends it, if a process knows it; `is_finished` says that it went well.
  WorkerAnswer close(HostedEpisode& episode, bool is_finished);

  /// Why no worker is left; ok while one is.
  Status health() const;

 private:
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<WorkerProcess> process;
    uint64_t generation = 0;
    int64_t failures = 0;
    WorkerAnswer last_failure;
    Deadline next_start{};
    std::atomic<int64_t> num_open{0};
    std::atomic<bool> is_given_up{false};
  };

  size_t choose_slot() const;
  /// The slot of the episode, or another one if that is given up.
  Slot& slot_of(HostedEpisode& episode);
  WorkerAnswer ensure_process(Slot& slot, double& seconds);
  WorkerAnswer play_again(Slot& slot, HostedEpisode& episode);
  WorkerAnswer ask(Slot& slot, HostedEpisode& episode, const Json& request,
                   std::string_view wanted);
  WorkerAnswer note(Slot& slot, WorkerAnswer answer);
  std::string name_of(const Slot& slot) const;

  WorkerPoolOptions options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Json ready_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace mainspring

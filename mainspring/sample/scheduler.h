// Scheduler: which samples run, and the cache pages they hold.
//
// The one idea: first come, first served. A sample is admitted when pages for its tokens so far are
// free; when running ones need more pages than there are, the youngest gives up its own, queues in
// front and is recomputed later, to the same bits. The oldest is never preempted, so every request
// that fits the cache ends. Not for what a step computes: that is sampler.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "mainspring/sample/kv_pool.h"
#include "mainspring/sample/sample_state.h"

namespace mainspring {

using SamplePtr = std::unique_ptr<SampleState>;

class Scheduler {
 public:
  struct Options {
    int64_t max_batch = 1;
    bool share_prefixes = true;
    int64_t window = 0;  // keys that the layer which sees furthest back sees; 0: all
    /// Names the weights that a request's cache depends on (KvPool::root).
    std::function<uint64_t(const SampleRequest&)> weights_key;
    /// Told of samples that give up their pages; may be empty.
    std::function<void(SampleState&)> on_release;
  };
  struct Stats {
    int64_t shared_tokens = 0;  // positions taken from the cache
    int64_t preemptions = 0;
  };

  /// `pool` outlives the scheduler.
  Scheduler(KvPool& pool, Options options) : pool_(pool), options_(std::move(options)) {}

  void enqueue(SamplePtr sample) { queue_.push_back(std::move(sample)); }

  /// Moves samples from the queue's front to running() while batch and pages have room; nothing
  /// that runs is disturbed. A request's samples 1 to n - 1 have their places kept while sample 0
  /// computes the prompt.
  void admit();

  /// Oldest first.
  std::vector<SamplePtr>& running() { return running_; }
  const std::deque<SamplePtr>& queue() const { return queue_; }
  bool is_empty() const { return queue_.empty() && running_.empty(); }

  /// Gives running()[index] pages for its first `positions` positions, at the cost of younger
  /// samples. False: there was none younger, and it was preempted itself.
  bool ensure_pages(size_t index, int64_t positions);

  /// Makes the sample's newly full pages findable; after num_cached has grown.
  void publish(SampleState& sample);

  /// Gives up the pages that lie behind every layer's window of the next row; after num_cached has
  /// grown. Published ones stay findable until their memory is needed.
  void drop_behind_window(SampleState& sample);

  /// Starts the waiting siblings of a sample whose prompt is just computed, from its pages. Those
  /// without room queue in front. Returns who started; they are in running().
  std::vector<SampleState*> fork_waiting(SampleState& leader);

  /// Gives up all pages.
  void release(SampleState& sample);

  /// Drops samples with is_finished, queued or running.
  void remove_finished();

  const Stats& stats() const { return stats_; }

 private:
  int64_t num_started() const;
  bool try_admit(SampleState& sample);
  bool try_fork(const SampleState& leader, SampleState& sibling);
  void preempt_youngest();

  KvPool& pool_;
  Options options_;
  std::deque<SamplePtr> queue_;
  std::vector<SamplePtr> running_;
  Stats stats_;
};

}  // namespace mainspring

#include "mainspring/data/prefetcher.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace mainspring {

void LeftOut::add(const ReadRow& row, int64_t max_tokens) {
  const bool too_long = row.use == RowUse::kTooLong;
  std::string& first = too_long ? first_too_long : first_empty_mask;
  if (first.empty()) first = left_out_note(row, max_tokens);
  ++(too_long ? num_too_long : num_empty_mask);
}

void LeftOut::add(const LeftOut& other) {
  num_empty_mask += other.num_empty_mask;
  num_too_long += other.num_too_long;
  if (first_empty_mask.empty()) first_empty_mask = other.first_empty_mask;
  if (first_too_long.empty()) first_too_long = other.first_too_long;
}

Result<Sample> next_sample(SampleStream& stream, const Corpus& corpus, const RowEncoder& encoder) {
  Sample sample;
  for (int64_t met = 0;; ++met) {
    MS_ASSIGN_OR_RETURN(const ReadRow row, stream.next_row());
    sample.source = row.source;
    if (row.use == RowUse::kUsed) {
      append_datums(row.row, row.sample, row.epoch, sample.datums);
      sample.state = stream.state();
      return sample;
    }
    sample.left_out.add(row, encoder.options().max_tokens);
    const Corpus::Source& source = corpus.sources()[row.source];
    if (met >= 2 * source.num_train()) {
      return failed_precondition("data source '" + source.name +
                                 "': has no row left that can be used");
    }
  }
}

struct Prefetcher::Shared {
  Shared(const Setup& given, const DataState& state)
      : setup(given), stream(given.corpus, given.encoder, given.read_options) {
    stream.set_state(state);
  }
  Setup setup;
  SampleStream stream;  // of the thread

  std::mutex mutex;
  std::condition_variable filled;  // for the taker
  std::condition_variable wanted;  // for the thread
  std::condition_variable ended;
  std::deque<Sample> queue;
  int64_t num_wanted = 0;
  bool stop = false;
  bool has_ended = false;
  bool stalled = false;
  Status status;
  std::thread thread;
};

Prefetcher::Prefetcher(const Setup& setup, const DataState& state)
    : shared_(std::make_shared<Shared>(setup, state)) {
  shared_->thread = std::thread([shared = shared_] { run(shared); });
}

void Prefetcher::run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  const auto has_room = [&] {
    return static_cast<int64_t>(shared->queue.size()) <
           std::max(shared->setup.num_ahead, shared->num_wanted);
  };
  while (true) {
    shared->wanted.wait(lock, [&] { return shared->stop || has_room(); });
    if (shared->stop) break;
    lock.unlock();
    Result<Sample> sample =
        next_sample(shared->stream, *shared->setup.corpus, *shared->setup.encoder);
    lock.lock();
    if (sample.ok()) {
      shared->queue.push_back(std::move(sample).value());
    } else {
      shared->status = sample.status();
    }
    shared->filled.notify_all();
    if (!sample.ok()) break;
  }
  shared->has_ended = true;
  shared->ended.notify_all();
}

Prefetcher::~Prefetcher() {
  bool ended = false;
  {
    std::unique_lock<std::mutex> lock(shared_->mutex);
    shared_->stop = true;
    shared_->wanted.notify_all();
    // One row's reading and encoding; a thread that has stalled once is not waited for.
    const auto patience =
        std::chrono::duration<double>(shared_->stalled ? 0.0 : shared_->setup.stall_timeout_s);
    ended = shared_->ended.wait_for(lock, patience, [&] { return shared_->has_ended; });
  }
  if (ended) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();  // it holds shared_ itself
  }
}

Result<std::vector<Sample>> Prefetcher::take(int64_t n) {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  const auto has_enough = [&] { return static_cast<int64_t>(shared_->queue.size()) >= n; };
  shared_->num_wanted = n;
  shared_->wanted.notify_all();
  const Status waited = shared_->setup.read_options.activity->wait(
      lock, shared_->filled, shared_->setup.stall_timeout_s,
      [&] { return has_enough() || !shared_->status.ok(); });
  shared_->num_wanted = 0;
  shared_->stalled = !waited.ok();
  MS_RETURN_IF_ERROR(waited);
  if (!has_enough()) return shared_->status;
  std::vector<Sample> out;
  for (int64_t i = 0; i < n; ++i) {
    out.push_back(std::move(shared_->queue.front()));
    shared_->queue.pop_front();
  }
  shared_->wanted.notify_all();
  return out;
}

}  // namespace mainspring

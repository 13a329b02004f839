#include "mainspring/base/thread_pool.h"

#include <emmintrin.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

constexpr unsigned kRoundingControl = 0x6000u;                    // MXCSR bits
constexpr unsigned kFlushAndMasks = 0x8000u | 0x0040u | 0x1f80u;  // FTZ, DAZ, all exceptions masked

/// How long an idle worker looks for new work before it sleeps: the gaps between the ops of a step
/// are a few microseconds, those between steps some hundred; a futex wake costs about 50, and in a
/// virtual machine the woken thread may first share its waker's core for some milliseconds.
constexpr int kSpinsBeforeSleep = 50000;
constexpr int kSpinsBeforeYield = 2000;

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A thread's own: no other writes it.
struct alignas(64) BusyTime {
  std::atomic<int64_t> ns{0};
};

}  // namespace

ComputeScope::ComputeScope() : saved_(_mm_getcsr()) {
  _mm_setcsr((saved_ & ~kRoundingControl) | kFlushAndMasks);
}

ComputeScope::~ComputeScope() { _mm_setcsr(saved_); }

// The ticket word holds (run number << 32 | next task). A worker claims a task by compare-and-swap,
// which can only succeed while the run it saw is still the current one; between runs the word is
// closed, and only then are the task and its count written. So a worker that wakes late does no
// harm, and run() waits for tasks, not for sleeping workers.
struct ThreadPool::State {
  static constexpr uint64_t kClosed = 0xffffffffu;

  explicit State(int num_threads) : size(num_threads), busy(static_cast<size_t>(num_threads)) {}

  int size;
  std::vector<std::thread> workers;
  alignas(64) std::atomic<uint64_t> ticket{kClosed};
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) std::atomic<int64_t> num_tasks{0};
  std::atomic<const TaskRef*> task{nullptr};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<bool> timed{false};
  std::vector<BusyTime> busy;  // by thread
  int64_t wall_ns = 0;         // the caller's

  static uint64_t run_of(uint64_t word) { return word >> 32; }

  /// Takes tasks of the current run until none is left.
  void work(int thread) {
    uint64_t word = ticket.load(std::memory_order_acquire);
    const bool is_timed = timed.load(std::memory_order_relaxed);
    int64_t begin = is_timed ? steady_ns() : 0;
    while (true) {
      const uint64_t index = word & kClosed;
      if (index == kClosed) return;
      const TaskRef* current = task.load(std::memory_order_relaxed);
      if (static_cast<int64_t>(index) >= num_tasks.load(std::memory_order_relaxed)) return;
      if (!ticket.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      (*current)(static_cast<int64_t>(index), thread);
      if (is_timed) {  // before the task counts as done: then the caller may read it
        const int64_t now = steady_ns();
        busy[static_cast<size_t>(thread)].ns.fetch_add(now - begin, std::memory_order_relaxed);
        begin = now;
      }
      done.fetch_add(1, std::memory_order_acq_rel);
      word = ticket.load(std::memory_order_acquire);
    }
  }

  /// Returns when a run other than `seen` is current, or at stop.
  uint64_t wait_for_run(uint64_t seen) {
    for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
      const uint64_t run = run_of(ticket.load(std::memory_order_acquire));
      if (run != seen || stop.load(std::memory_order_relaxed)) return run;
      _mm_pause();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return run_of(ticket.load()) != seen || stop.load(); });
    sleepers.fetch_sub(1);
    return run_of(ticket.load());
  }

  void worker(int thread) {
    const ComputeScope scope;
    uint64_t seen = 0;
    while (true) {
      seen = wait_for_run(seen);
      if (stop.load()) return;
      work(thread);
    }
  }

  void wake_sleepers() {
    if (sleepers.load() == 0) return;
    {
      const std::lock_guard lock(mutex);
    }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>(num_threads)) {
  MS_CHECK(num_threads >= 1,
           "a pool needs at least the caller, got " + std::to_string(num_threads));
  for (int thread = 1; thread < num_threads; ++thread) {
    state_->workers.emplace_back([state = state_.get(), thread] { state->worker(thread); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  {
    const std::lock_guard lock(state_->mutex);
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const { return state_->size; }

void ThreadPool::run(int64_t num_tasks, TaskRef task) {
  const ComputeScope scope;
  State& state = *state_;
  if (state.size == 1 || num_tasks <= 1) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i, 0);
    return;
  }
  MS_CHECK(num_tasks < static_cast<int64_t>(State::kClosed), "too many tasks");
  // The word is closed here: no worker reads what is written next until the ticket opens.
  const bool is_timed = state.timed.load(std::memory_order_relaxed);
  const int64_t begin = is_timed ? steady_ns() : 0;
  state.task.store(&task, std::memory_order_relaxed);
  state.num_tasks.store(num_tasks, std::memory_order_relaxed);
  state.done.store(0, std::memory_order_relaxed);
  const uint64_t run = State::run_of(state.ticket.load(std::memory_order_relaxed)) + 1;
  state.ticket.store(run << 32);
  state.wake_sleepers();
  state.work(0);
  for (int spin = 0; state.done.load(std::memory_order_acquire) < num_tasks; ++spin) {
    if (spin < kSpinsBeforeYield) {
      _mm_pause();
    } else {
      sched_yield();
    }
  }
  state.ticket.store((run << 32) | State::kClosed);
  if (is_timed) state.wall_ns += steady_ns() - begin;
}

void ThreadPool::set_timed(bool timed) { state_->timed.store(timed); }

LoopTimes ThreadPool::times() const {
  LoopTimes times{.wall_ns = state_->wall_ns};
  for (const BusyTime& busy : state_->busy) times.busy_ns += busy.ns.load();
  return times;
}

}  // namespace mainspring

#include "mainspring/data/activity.h"

#include <chrono>
#include <cstdio>
#include <thread>

namespace mainspring {

void Activity::touch(const std::string& file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ != file) file_ = file;
  ++count_;
}

Status Activity::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                      double timeout_s, const std::function<bool()>& done) {
  using Clock = std::chrono::steady_clock;
  const auto timeout = std::chrono::duration<double>(timeout_s);
  auto deadline = Clock::now() + timeout;
  uint64_t seen = 0;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    seen = count_;
  }
  while (!done()) {
    changed.wait_until(lock, std::chrono::time_point_cast<Clock::duration>(deadline));
    if (done()) return {};
    if (Clock::now() < deadline) continue;
    const std::lock_guard<std::mutex> guard(mutex_);
    if (count_ != seen) {  // it moved: the deadline starts again
      seen = count_;
      deadline = Clock::now() + timeout;
      continue;
    }
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.3g", timeout_s);
    return deadline_exceeded((file_.empty() ? "data files" : file_) + ": gave nothing for " +
                             seconds + " s; is it a dead mount, or a pipe that nobody writes to?");
  }
  return {};
}

Status run_with_deadline(const std::shared_ptr<Activity>& activity, double timeout_s,
                         std::function<Status()> work) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Status status;
  };
  auto shared = std::make_shared<Shared>();
  std::thread thread([shared, activity, work = std::move(work)] {
    Status status = work();
    const std::lock_guard<std::mutex> lock(shared->mutex);
    shared->status = std::move(status);
    shared->done = true;
    shared->changed.notify_all();
  });
  std::unique_lock<std::mutex> lock(shared->mutex);
  const Status waited =
      activity->wait(lock, shared->changed, timeout_s, [&] { return shared->done; });
  if (!waited.ok()) {
    thread.detach();
    return waited;
  }
  Status status = std::move(shared->status);
  lock.unlock();
  thread.join();
  return status;
}

}  // namespace mainspring

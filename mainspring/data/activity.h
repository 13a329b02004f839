// Activity: what a reading thread is at, so that whoever waits for it can say what it waits for.
//
// The one idea: no read has a deadline of its own (a dead mount blocks inside the kernel); the
// waiter has one, and the reader leaves a note of the file it went into.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "mainspring/base/status.h"

namespace mainspring {

/// Threads: one reader, any number of waiters.
class Activity {
 public:
  /// The reader is about to touch `file`, or has got something from it.
  void touch(const std::string& file);

  /// Waits until `done()` (called under `lock`'s mutex) holds. Errors: deadline exceeded, naming
  /// the last touched file, when `timeout_s` pass without a touch and without done().
  Status wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
              double timeout_s, const std::function<bool()>& done);

 private:
  std::mutex mutex_;
  std::string file_;
  uint64_t count_ = 0;
};

/// Runs `work` on a thread of its own and returns its status; deadline exceeded if it stands still
/// for `timeout_s`: the thread is then left behind, so all that `work` uses must be held by it.
Status run_with_deadline(const std::shared_ptr<Activity>& activity, double timeout_s,
                         std::function<Status()> work);

}  // namespace mainspring

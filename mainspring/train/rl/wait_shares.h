// WaitShares: who waits for what, as shares of a run's wall time.
//
// The one idea: one thread of control is in exactly one activity at a time, and what belongs to no
// activity is idle, so the shares add up to 1 by construction.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mainspring {

enum class RlActivity {
  kGeneration,   // the sampler computes tokens
  kEnvironment,  // episodes are made, start, and answer turns that go on
  kReward,       // the environment judges last turns; rewards become advantages
  kLearner,      // passes and the update
  kPublication,  // the sampler is told of new weights
  kRecords,      // evaluation, checkpoints, metrics, rollouts
  kIdle,         // nothing of these
};
inline constexpr int kNumRlActivities = 7;
std::string_view rl_activity_name(RlActivity activity);

/// Threads: one caller.
class WaitShares {
 public:
  WaitShares() : start_(Clock::now()) {}

  /// Time inside counts for `activity`; a scope inside another takes its time from the outer one.
  class Scope {
   public:
    Scope(WaitShares& shares, RlActivity activity)
        : shares_(shares), outer_(shares.enter(activity)) {}
    ~Scope() { shares_.enter(outer_); }
    /// What went on since the scope began was another activity, as its outcome tells.
    void rename(RlActivity activity) { shares_.current_ = activity; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WaitShares& shares_;
    RlActivity outer_;
  };

  /// Seconds of each activity since the start.
  std::array<double, kNumRlActivities> seconds();
  /// The same over their sum, which is the wall time.
  std::array<double, kNumRlActivities> shares();
  /// A table of names, seconds and shares for the terminal.
  std::string table();

 private:
  using Clock = std::chrono::steady_clock;

  /// Ends what goes on, begins `activity`; gives what went on.
  RlActivity enter(RlActivity activity);

  Clock::time_point start_;  // of what goes on
  RlActivity current_ = RlActivity::kIdle;
  std::array<double, kNumRlActivities> seconds_{};
};

}  // namespace mainspring

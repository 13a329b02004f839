#include "mainspring/train/rl/wait_shares.h"

#include <cstdio>
#include <numeric>

namespace mainspring {

std::string_view rl_activity_name(RlActivity activity) {
  switch (activity) {
    case RlActivity::kGeneration:
      return "generation";
    case RlActivity::kEnvironment:
      return "environment";
    case RlActivity::kReward:
      return "reward";
    case RlActivity::kLearner:
      return "learner";
    case RlActivity::kPublication:
      return "weight publication";
    case RlActivity::kRecords:
      return "records";
    case RlActivity::kIdle:
      return "idle";
  }
  return "";
}

RlActivity WaitShares::enter(RlActivity activity) {
  const Clock::time_point now = Clock::now();
  seconds_[static_cast<size_t>(current_)] += std::chrono::duration<double>(now - start_).count();
  start_ = now;
  const RlActivity before = current_;
  current_ = activity;
  return before;
}

std::array<double, kNumRlActivities> WaitShares::seconds() {
  enter(current_);
  return seconds_;
}

std::array<double, kNumRlActivities> WaitShares::shares() {
  std::array<double, kNumRlActivities> result = seconds();
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& share : result) share = sum > 0 ? share / sum : 0.0;
  return result;
}

std::string WaitShares::table() {
  const auto all = seconds();
  const auto parts = shares();
  std::string text = "who waits for what      seconds   share\n";
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name(rl_activity_name(static_cast<RlActivity>(i)));
    char line[96];
    std::snprintf(line, sizeof(line), "  %-20s %8.2f  %5.1f%%\n", name.c_str(), all[i],
                  100 * parts[i]);
    text += line;
  }
  return text;
}

}  // namespace mainspring

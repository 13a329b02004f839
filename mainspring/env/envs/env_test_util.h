// Shared by the tests of environments: making one by name, and one reply's rewards.
#pragma once

#include <memory>
#include <string>

#include "mainspring/env/environment.h"

namespace mainspring {

inline std::unique_ptr<Environment> must_make(const std::string& name, EnvSettings settings = {}) {
  auto made = make_environment(name, settings);
  MS_CHECK(made.ok(), made.status().message());
  return std::move(made).value();
}

inline double sum_of(const std::map<std::string, double>& rewards) {
  double sum = 0;
  for (const auto& [part, reward] : rewards) sum += reward;
  return sum;
}

/// The reward of the first step of task (seed, index).
inline double reward_of(Environment& env, const Action& action, uint64_t seed = 1,
                        uint64_t index = 0) {
  const std::unique_ptr<Episode> episode = env.make_episode(seed, index);
  episode->start();
  const Feedback feedback = episode->step(action);
  MS_CHECK(feedback.is_done, "one turn was expected");
  return sum_of(feedback.rewards);
}

inline double reward_of(Environment& env, const std::string& text, uint64_t seed = 1,
                        uint64_t index = 0) {
  return reward_of(env, Action{.text = text, .tokens = {}, .is_complete = true}, seed, index);
}

/// The last message of the first observation.
inline std::string question_of(Environment& env, uint64_t seed = 1, uint64_t index = 0) {
  return env.make_episode(seed, index)->start().messages.back().content;
}

}  // namespace mainspring

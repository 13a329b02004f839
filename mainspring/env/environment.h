// Environment: what a policy acts in, one turn at a time.
//
// The one idea: a task is a pure function of (seed, index), an episode is a conversation: the
// environment says something, the policy answers, the environment judges and may go on. Text
// environments speak in chat messages, which the caller renders with the model's own template;
// token environments speak in token ids of a vocabulary of their own. A failure of the
// environment's own is an outcome with a name, never a reward of 0. Not for sampling or batching:
// that is the caller's. Threads: one caller per episode; episodes are independent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

struct EnvMessage {
  std::string role;  // "system" | "user" | "assistant" | "tool"
  std::string content;
};

/// What the policy gets to see next. Exactly one of the two is filled.
struct Observation {
  std::vector<EnvMessage> messages;  // to append to the conversation
  std::vector<int32_t> tokens;       // to append to the sequence
};

/// What the policy did.
struct Action {
  std::string text;             // without control tokens
  std::vector<int32_t> tokens;  // with them
  bool is_complete = true;      // it ended by itself, not at the limit of new tokens
};

/// How an episode's environment ended. Only kOk has a reward.
enum class EpisodeOutcome {
  kOk,         // "ok"
  kTimeout,    // "timeout": the deadline of set-up, turns, scoring and teardown together passed
  kCrash,      // "crash": the process of the environment is gone
  kException,  // "exception": it reported a failure of its own
  kGarbage,    // "garbage": its answer cannot be read
  kMemory,     // "memory": it exceeded its limit of memory
};
std::string_view outcome_name(EpisodeOutcome outcome);

/// The environment's answer to an action.
struct Feedback {
  bool is_done = true;
  Observation next;  // empty when done
  /// This turn's rewards by part, weights applied: the turn's reward is their sum.
  std::map<std::string, double> rewards;
  EpisodeOutcome outcome = EpisodeOutcome::kOk;
  std::string message;  // what went wrong, for people
};

class Episode {
 public:
  virtual ~Episode() = default;
  /// The first observation. A failure of the environment comes with the first step's feedback.
  virtual Observation start() = 0;
  /// Precondition: started, and not done yet.
  virtual Feedback step(const Action& action) = 0;
};

class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::string name() const = 0;
  /// Ids of a token environment: 0 <= id < vocabulary(); 0: a text environment.
  virtual int64_t vocabulary() const { return 0; }
  /// The token that ends an action of a token environment; -1: a text environment.
  virtual int32_t end_token() const { return -1; }
  /// Number of distinct tasks, 0: unbounded. Indices 0 to num_tasks() - 1 of any seed are each task
  /// once, in an order that the seed gives; those beyond begin again, in another order.
  virtual int64_t num_tasks() const { return 0; }
  /// The same (seed, index) gives the same episode on every machine.
  virtual std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) = 0;
  /// What statistics are kept by, such as a difficulty; the environment's name by default.
  virtual std::string task_of(uint64_t seed, uint64_t index) const;
};

/// Settings of an environment by name, as a recipe's [env.settings] gives them.
using EnvSettings = std::map<std::string, std::string>;

/// Errors: invalid argument for an unknown name (with the nearest) or setting.
Result<std::unique_ptr<Environment>> make_environment(const std::string& name,
                                                      const EnvSettings& settings);

/// One row of the table of environments, for --help and documentation.
struct EnvironmentInfo {
  std::string_view name;
  std::string_view meaning;
  std::string_view settings;  // "key=default (bounds), ...", "" for none
};
std::vector<EnvironmentInfo> environment_table();

}  // namespace mainspring

// WorkerProcess: one foreign process that hosts episodes, as requests and answers in JSON lines.
//
// The one idea: an answer is either what the protocol says it may be, or a failure with one of the
// outcomes of an episode; there is no third thing. Design note and the protocol:
// docs/howto/add_an_environment.md. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/env/child_process.h"
#include "mainspring/env/environment.h"
#include "mainspring/io/json.h"

namespace mainspring {

/// The version of the protocol that both sides must speak.
constexpr int64_t kWorkerProtocol = 1;

struct WorkerOptions {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // beside our own
  Json settings = Json::object();        // handed to the worker at hello
  int64_t memory_bytes = 0;              // 0: no limit
  bool may_fork = false;
  bool may_use_network = true;
};

/// What came of a request.
struct WorkerAnswer {
  EpisodeOutcome outcome = EpisodeOutcome::kOk;
  std::string message;           // of a failure
  Json body = Json::object();    // of a success
  bool is_process_lost = false;  // by the failure: it was stopped, or is gone
};

class WorkerProcess {
 public:
  /// Starts the process and greets it. `seconds` is what may be spent, and is lowered by what was.
  /// On a failure `answer` has it and there is no process; else it is the "ready" message.
  static std::unique_ptr<WorkerProcess> start(const WorkerOptions& options, double& seconds,
                                              WorkerAnswer& answer);

  /// Sends `request` and waits for the message of type `wanted` (and of its episode, if the request
  /// has one). Precondition: is_alive().
  WorkerAnswer ask(const Json& request, std::string_view wanted, double& seconds);

  bool is_alive() const { return child_ != nullptr; }

 private:
  WorkerProcess(std::unique_ptr<ChildProcess> child, int64_t memory_bytes)
      : child_(std::move(child)), memory_bytes_(memory_bytes) {}
  WorkerAnswer lose(EpisodeOutcome outcome, const std::string& what);
  WorkerAnswer read_answer(const Json& request, std::string_view wanted, const std::string& line);
  WorkerAnswer lose_closed(std::string_view request_type);

  std::unique_ptr<ChildProcess> child_;
  int64_t memory_bytes_;
};

}  // namespace mainspring

// ChildProcess: a program of somebody else's, under limits, spoken to in lines.
//
// The one idea: every wait has a deadline and every child is ended with all that it started, by its
// process group, whatever it does. What it writes to stderr is drained and its end kept, because
// that is where the reason of a failure stands. Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/env/syscall_filter.h"

namespace mainspring {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_in(double seconds);

struct ChildOptions {
  std::vector<std::string> command;      // the program, sought in PATH, and its arguments
  std::vector<std::string> environment;  // "NAME=value", instead of or beside our own
  bool keeps_environment = true;         // else the child has `environment` alone
  std::string folder;                    // where it runs; "": here
  int64_t memory_bytes = 0;              // of address space; 0: no limit
  int64_t cpu_seconds = 0;               // 0: no limit
  SyscallLimits may;
  /// Killed when the thread that starts it ends, and so when this process does. For children that
  /// do not outlive the call that starts them.
  bool dies_with_thread = false;
};

/// How a child went.
struct ChildEnd {
  bool is_known = false;     // else it could not be waited for
  int exit_code = -1;        // -1: by a signal
  int signal = 0;            // 0: it exited
  bool was_stopped = false;  // by stop(), before it ended by itself
  int64_t peak_bytes = 0;    // resident at most
  /// "exit status 1", "signal 9 (Killed)".
  std::string to_string() const;
};

class ChildProcess {
 public:
  /// Longer lines are refused.
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;
  /// As much of stderr's end is kept.
  static constexpr size_t kErrorTailBytes = 4096;

  /// Errors: invalid argument if the program cannot be run; failed precondition if a limit cannot
  /// be set here; resource exhausted.
  static Result<std::unique_ptr<ChildProcess>> start(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class Read { kLine, kTimeout, kClosed, kTooLong };

  /// Queues `text` for the child's stdin; it is written while reads wait.
  void send(std::string_view text);
  /// Closes its stdin once all is written.
  void send_end();
  /// The next line of its stdout without line break. kClosed: it closed stdout, or is gone; a last
  /// line without line break is given first.
  Read read_line(std::string& line, Deadline deadline);

  /// Waits until it ends by itself; false at the deadline.
  bool wait(Deadline deadline);
  /// Kills its process group and waits for it. May be called again.
  const ChildEnd& stop();
  const ChildEnd& end() const { return end_; }

  pid_t pid() const { return pid_; }
  /// The end of what it wrote to stderr, without blanks around it.
  std::string error_tail();

 private:
  ChildProcess() = default;
  bool pump(Deadline deadline);  // moves bytes; false at the deadline
  void drain_errors();
  bool try_reap();

  pid_t pid_ = -1;
  int input_ = -1;  // our ends
  int output_ = -1;
  int errors_ = -1;
  std::string unsent_;
  bool closes_input_ = false;
  std::string received_;
  size_t scanned_ = 0;  // of received_, without a line break
  std::string error_tail_;
  bool is_reaped_ = false;
  ChildEnd end_;
};

}  // namespace mainspring

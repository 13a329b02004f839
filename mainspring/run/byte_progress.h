// ByteProgress: how far a step over bytes is, on stderr.
//
// The one idea: one line per step on a terminal, rewritten; elsewhere a plain line now and then.
// Both end with the rate and the time left. progress.h shows training, this what goes before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mainspring {

/// Threads: one at a time.
class ByteProgress {
 public:
  ByteProgress();
  ~ByteProgress() { end_line(); }
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  /// Another step begins another line. Cheap unless a line is due.
  void update(const std::string& step, int64_t done, int64_t total);
  /// Leaves the last line standing.
  void end_line();

 private:
  using Clock = std::chrono::steady_clock;

  bool is_terminal_;
  bool is_live_ = false;
  std::string step_;
  Clock::time_point start_;
  Clock::time_point last_;
  int64_t first_ = 0;
};

}  // namespace mainspring

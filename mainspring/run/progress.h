// Progress: what a person in front of the terminal sees of a run.
//
// The one idea: on a terminal one line that is rewritten in place, with the time left; elsewhere (a
// pipe, a log file) plain lines at a modest rate. Messages scroll by above the live line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "mainspring/run/run_folder.h"

namespace mainspring {

struct ProgressOptions {
  std::FILE* out = nullptr;  // null: stderr
  int is_terminal = -1;      // 1 or 0; -1: ask the system
  int64_t total_steps = 0;
  int64_t first_step = 0;  // steps done before (resume): they do not count for the rate
  /// The work of steps up to `step` together, in any unit, for the time left; empty: all are alike.
  std::function<double(int64_t step)> work_until = {};
  double plain_interval_s =
      10.0;  // between plain lines; the first and the last step are always shown
  std::function<int64_t()> now_ns;                // monotonic; empty: the system's
  std::function<std::string(int64_t step)> head;  // stands before each step's line; empty: nothing
};

/// Threads: one caller. Never fails: what cannot be written is dropped.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  /// Leaves the last live line standing.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  void eval(const EvalMetrics& metrics);
  void message(std::string_view text);
  void finish();

 private:
  std::string line(const StepMetrics& metrics) const;
  void put(const std::string& text);

  ProgressOptions options_;
  int64_t start_ns_ = 0;
  int64_t last_plain_ns_ = 0;
  bool has_plain_ = false;
  bool live_ = false;
  std::string last_line_;
};

/// "1h 02m", "3m 05s", "12s".
std::string format_duration(double seconds);
/// "1.2k", "3.4M": three digits or so.
std::string format_count(double value);
/// "1 row", "2 rows".
std::string format_counted(int64_t n, std::string_view noun);
/// "8.4818", "not finite".
std::string format_loss(double loss);

}  // namespace mainspring

// RowProgress: how far a command over rows is, on stderr.
//
// The one idea: a terminal gets one line that is rewritten, a log gets a plain line now and then;
// both end with the time left, from the rate of rows so far.
#pragma once

#include <cstdint>
#include <string>

namespace mainspring::cli {

class RowProgress {
 public:
  /// `verb` heads each line; `done_rows` were done before (resumed) and do not count for the rate.
  RowProgress(std::string verb, int64_t total_rows, int64_t done_rows);
  /// Ends the line.
  ~RowProgress();
  RowProgress(const RowProgress&) = delete;
  RowProgress& operator=(const RowProgress&) = delete;

  /// Cheap unless a line is due.
  void update(int64_t done_rows, int64_t tokens);
  /// The last line, whenever the one before was.
  void finish(int64_t done_rows, int64_t tokens);

 private:
  void print(int64_t done_rows, int64_t tokens, bool is_last);

  std::string verb_;
  int64_t total_rows_;
  int64_t first_rows_;
  bool is_terminal_;
  bool is_live_ = false;
  int64_t start_ns_;
  int64_t last_ns_;
};

}  // namespace mainspring::cli

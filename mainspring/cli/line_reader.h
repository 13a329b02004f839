// LineReader: lines from standard input that a signal may interrupt.
#pragma once

#include <string>

namespace mainspring::cli {

class LineReader {
 public:
  enum class Outcome { kLine, kEnd, kInterrupted };

  explicit LineReader(int fd) : fd_(fd) {}

  /// The next line without its newline (and without a carriage return before it). Interrupted: a
  /// signal came; what was typed of the line is dropped, as a terminal does.
  Outcome read(std::string& line);

 private:
  int fd_;
  std::string pending_;
};

}  // namespace mainspring::cli

// Interrupt: SIGINT and SIGTERM as a question that loops ask, instead of the program's end.
#pragma once

#include <signal.h>

namespace mainspring::cli {

/// While it lives, the first SIGINT or SIGTERM is remembered and interrupts a read from the
/// terminal. With `second_ends`, the second one ends the program as usual. One at a time.
class Interrupt {
 public:
  explicit Interrupt(bool second_ends);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// The signal that came since the last clear(); 0: none.
  int pending() const;
  void clear();

 private:
  struct sigaction saved_int_;
  struct sigaction saved_term_;
};

}  // namespace mainspring::cli

// Spike guard: is this step's loss out of line with those before it?
//
// The one idea: the last losses' median and their distances from it say what is usual, so a spike
// neither hides itself nor needs a tuned threshold in nats. Its state is the losses, kept in
// checkpoints to the last bit, so a resumed run judges as the first one would have.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "mainspring/base/status.h"

namespace mainspring {

class SpikeGuard {
 public:
  /// `factor` > 0; 0: never a spike. `window` losses are remembered; with fewer nothing is one.
  SpikeGuard(double factor, int64_t window) : factor_(factor), window_(window) {}

  /// The loss from which a step is a spike: median + factor * the median distance from it, which
  /// counts as at least 1% of the median. Infinite while the window is not full.
  double limit() const;
  bool is_spike(double loss) const { return !(loss <= limit()); }  // a NaN is one

  /// Notes a usual loss.
  void note(double loss);

  /// The remembered losses, exact.
  std::string state() const;
  /// Errors: data loss if the text is no state.
  Status restore(const std::string& state);

 private:
  double factor_;
  int64_t window_;
  std::deque<double> losses_;
};

}  // namespace mainspring

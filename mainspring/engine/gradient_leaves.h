// GradientLeaves: gradients of runs of datums, summed like a binary counter.
//
// The one idea: with a fixed number of datums to a leaf, the order in which leaves add up depends
// on their number only, so ranks that own aligned runs of leaves give the bits of one rank that
// owns them all (docs/exactness.md, rule 10). The accumulators hold the open leaf; closed ones wait
// in levels, level l holding the sum of 2^l of them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/exec/executor.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring {

class GradientLeaves {
 public:
  /// `size`: datums to a leaf; 0: all datums are one leaf. `grads` outlives this: accumulators
  /// "<name>", and "<name>#1", ... of further uses.
  GradientLeaves(Executor& executor, ParameterSet& grads, int64_t size)
      : executor_(executor), grads_(grads), size_(size) {}

  /// How many datums the open leaf still takes; at 0, close() it before the next.
  int64_t datums_left() const {
    return size_ > 0 ? size_ - datums_ : std::numeric_limits<int64_t>::max();
  }
  /// Moves the open leaf into the counter; the accumulators become zero.
  /// Errors: resource exhausted.
  Status close();
  void count_datum() { ++datums_; }

  /// Brings the sum of all leaves to the accumulators of the first uses; the others become zero.
  /// Nothing to do while there is one leaf only. Errors: resource exhausted.
  Status collect();
  /// The sum that collect() would bring to `name`'s first use, without changing anything. `sum`: of
  /// the open leaf's uses.
  void add_closed_leaves(const std::string& name, std::vector<float>& sum) const;
  /// Forgets all leaves; the accumulators are the caller's to clear.
  void clear();

 private:
  struct Level {
    ParameterSet sums;
    bool is_occupied = false;
    std::unique_ptr<Executable> add_to_grads;
  };
  Status add_uses();
  Status add_level(Level& level);
  Result<Level*> level(size_t index);

  Executor& executor_;
  ParameterSet& grads_;
  int64_t size_;
  int64_t datums_ = 0;  // of the open leaf
  std::vector<std::unique_ptr<Level>> levels_;
  std::unique_ptr<Executable> add_uses_;
};

}  // namespace mainspring

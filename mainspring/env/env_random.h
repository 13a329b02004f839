// EnvRandom: the random numbers of one task, and the order of a finite set of tasks.
//
// The one idea: a task is a pure function of (environment, seed, index), so its draws are Philox
// keyed by exactly these (docs/exactness.md, rule 18) and all arithmetic is on integers.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/base/philox.h"

namespace mainspring {

class EnvRandom {
 public:
  /// `purpose`: the environment's name, so that two of them draw apart.
  EnvRandom(std::string_view purpose, uint64_t seed, uint64_t index);

  uint32_t next();
  /// Uniform in [0, bound), without bias; 1 <= bound < 2^32.
  int64_t below(int64_t bound);
  /// Uniform in [first, last]; at most 2^32 - 1 values.
  int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
  /// `count` different values of [first, last], in drawn order. The range must hold that many, and
  /// at most 2^20 values.
  std::vector<int64_t> distinct(int64_t count, int64_t first, int64_t last);

  template <typename T>
  void shuffle(std::vector<T>& list) {
    for (size_t left = list.size(); left > 1; --left) {
      const auto place = static_cast<size_t>(below(static_cast<int64_t>(left)));
      std::swap(list[left - 1], list[place]);
    }
  }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  int used_ = 4;  // of block_
};

/// 10^digits: below() of it draws numbers of at most so many digits. 0 <= digits <= 9.
constexpr int64_t power_of_ten(int64_t digits) {
  int64_t power = 1;
  for (int64_t i = 0; i < digits; ++i) power *= 10;
  return power;
}

/// The task of (seed, index) when there are `num_tasks` of them: a bijection within each round of
/// num_tasks indices, another one in each round. Cost: a microsecond or a few, in no memory.
int64_t task_in_order(std::string_view purpose, int64_t num_tasks, uint64_t seed, uint64_t index);

}  // namespace mainspring

// order: which row is which sample, as pure functions of integers.
//
// The one idea: no shuffled list is ever stored; a keyed permutation answers "what stands at place
// i" for any i, so a data set of any size is shuffled in no memory and resumes from one integer.
// Randomness is Philox keyed by the run's seed (docs/exactness.md, rule 18).
#pragma once

#include <cstdint>
#include <vector>

namespace mainspring {

/// What a permutation is for: part of its key.
enum class OrderPurpose : uint32_t { kEpoch = 1, kHeldOut = 2, kMixture = 3 };

/// A bijection of [0, size) that looks random: a six-round Feistel network over the next power of
/// four (at least 64), walked until it lands inside. Cost: about a microsecond; the walk takes
/// under four rounds of it on average for sizes over 16.
class KeyedPermutation {
 public:
  /// size >= 1.
  KeyedPermutation(int64_t size, uint64_t seed, OrderPurpose purpose, uint32_t source,
                   uint32_t epoch);
  /// `index` in [0, size).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t seed_;
  uint32_t tweak_;  // purpose
  uint32_t source_;
  uint32_t epoch_;
  int half_bits_ = 3;
};

/// Which source gives sample g. Shares are whole numbers of a cycle of 65,536 samples, so counts
/// are exact over a cycle. Inside, blocks of 64 samples are shuffled by key and places follow a van
/// der Corput sequence with nested keyed flips (Owen 1995), so any aligned run of 64, 128, 256 ...
/// samples has each source's share to within two samples.
class SourceDraw {
 public:
  static constexpr int kCycleBits = 16;
  static constexpr int64_t kCycle = int64_t{1} << kCycleBits;

  /// Weights >= 0, at most 1,024 of them and one > 0. A source with a weight > 0 gets at least one
  /// place of a cycle, one with 0 none.
  SourceDraw(const std::vector<double>& weights, uint64_t seed);
  /// Cost: about a microsecond.
  int operator()(uint64_t sample) const;
  /// Places of `source` in a cycle.
  int64_t count(int source) const { return ends_[source] - (source == 0 ? 0 : ends_[source - 1]); }

 private:
  uint64_t seed_;
  std::vector<int64_t> ends_;  // source s owns cycle places [ends_[s - 1], ends_[s])
};

/// kCycle split by weights: largest remainders, ties to the lower index, at least one for each
/// weight > 0.
std::vector<int64_t> apportion(const std::vector<double>& weights, int64_t total);

}  // namespace mainspring

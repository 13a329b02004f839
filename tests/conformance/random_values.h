// Random numbers of the conformance cases: a pure function of a name and an index.
#pragma once

#include <cstdint>
#include <string_view>

namespace mainspring::conformance {

/// Splitmix64 over a hash of the name.
class RandomValues {
 public:
  explicit RandomValues(std::string_view name) {
    for (char c : name) state_ = (state_ ^ static_cast<uint64_t>(c)) * 0x100000001b3u;
  }
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [low, high).
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  int64_t below(int64_t count) {
    return static_cast<int64_t>(bits() % static_cast<uint64_t>(count));
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace mainspring::conformance

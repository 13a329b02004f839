// Offsets in one arena for values whose lifetimes are known: two live values never overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mainspring::cpu {

/// A value alive from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of 64
  int64_t total_bytes = 0;
};

/// Largest first, each at the lowest offset that is free for its whole life. The result is at most
/// a few per cent above the largest sum of live bytes for transformer graphs. Cost: O(n^2) for n
/// values.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

}  // namespace mainspring::cpu

// How a reduction over K is cut (docs/exactness.md, rule 5).
#pragma once

#include <cstdint>

namespace mainspring::cpu {

/// The largest power of two n up to 8 with k / n >= 128, else 1.
constexpr int num_chunks(int64_t k) {
  int n = 1;
  while (n < 8 && k >= 128 * 2 * n) n *= 2;
  return n;
}

/// Pairs of one of n chunks over k elements; the last chunks are short or empty.
constexpr int64_t chunk_pairs(int64_t k, int n) { return (k + 2 * n - 1) / (2 * n); }

}  // namespace mainspring::cpu

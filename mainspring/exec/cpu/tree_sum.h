// Sums over a logical matrix in rule 15's order: blocks of (row, K-chunk), a tree over chunks, then
// rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mainspring/exec/cpu/chunks.h"
#include "mainspring/exec/cpu/row_walk.h"

namespace mainspring::cpu {

/// Balanced tree over n sums, in place: neighbours add level by level, an odd last one passes on.
/// The same as splitting at the largest power of two below n.
inline float tree_sum(float* sums, int64_t n) {
  if (n == 0) return 0.0f;
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    if (n % 2 != 0) sums[n / 2] = sums[n - 1];
  }
  return sums[0];
}

/// sums[row] = tree over the row's chunks of block(row, begin, n), rows in parallel.
template <typename Block>
void sum_rows(ThreadPool& pool, int64_t rows, int64_t columns, float* sums, Block block) {
  constexpr int64_t kGrain = 16384;  // elements
  const int chunks = num_chunks(columns);
  const int64_t width = 2 * chunk_pairs(columns, chunks);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns));
  parallel_pieces(pool, rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      float parts[8] = {};
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int64_t begin = std::min(columns, chunk * width);
        const int64_t end = std::min(columns, begin + width);
        parts[chunk] = block(row, begin, end - begin);
      }
      sums[row] = tree_sum(parts, chunks);
    }
  });
}

}  // namespace mainspring::cpu

// What attention sees of a paged key/value cache.
//
// The one idea: a page holds kPageTokens consecutive positions of one sequence, one key block, in
// the executor's own layout: what its kernels read. Others copy whole pages and look into none.
#pragma once

#include <cstdint>
#include <span>

namespace mainspring {

/// Positions per page; equals the key block of attention (docs/exactness.md, rule 7).
inline constexpr int32_t kPageTokens = 64;

/// One sequence's pages: page i holds positions [64 i, 64 i + 64).
struct KvSequence {
  std::span<const int32_t> pages;  // page numbers, enough for every position written or read
};

/// Elements a position takes: room for every executor's layout.
constexpr int64_t kv_row_elements(int64_t kv_heads, int64_t head_width) {
  return kv_heads * ((head_width + 15) / 16 * 16);
}

/// All layers' pages. Layer l's keys start at keys[l], page p of it at
/// keys[l] + p * kPageTokens * row_elements elements of the compute dtype; values likewise.
struct KvView {
  std::span<void* const> keys;    // one pointer per layer
  std::span<void* const> values;  // one pointer per layer
  int64_t row_elements = 0;       // kv_row_elements()
  std::span<const KvSequence> sequences;
};

}  // namespace mainspring

// What attention sees of a paged key/value cache.
//
// The one idea: a page holds kPageTokens consecutive positions of one sequence as rows [kv*c], the
// same layout as the activation's rows, so a key block is a pointer and a stride wherever it lives.
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

/// All layers' pages. Layer l's keys start at keys[l], page p of it at
/// keys[l] + p * kPageTokens * row_elements elements of the compute dtype; values likewise.
struct KvView {
  std::span<void* const> keys;    // one pointer per layer
  std::span<void* const> values;  // one pointer per layer
  int64_t row_elements = 0;       // kv heads * head width
  std::span<const KvSequence> sequences;
};

}  // namespace mainspring

// Splitting rows and elements over threads.
//
// The one idea: only independent pieces are handed out, so the split changes no bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mainspring/base/thread_pool.h"
#include "mainspring/ir/row_table.h"

namespace mainspring::cpu {

/// Calls f(begin, end) for pieces of [0, n) of `grain` elements (the last one shorter), in
/// parallel.
template <typename F>
void parallel_pieces(ThreadPool& pool, int64_t n, int64_t grain, F f) {
  pool.run((n + grain - 1) / grain,
           [&](int64_t task, int) { f(task * grain, std::min(n, (task + 1) * grain)); });
}

/// Calls f(segment, begin, end) for the runs of rows of [first, last) that lie in one segment, and
/// with segment null for runs that lie in none, in increasing order.
template <typename F>
void walk_rows(const RowTable& table, int64_t first, int64_t last, F f) {
  const auto after = [](const Segment& s) { return int64_t{s.row_begin} + s.num_rows; };
  auto segment = std::partition_point(table.segments.begin(), table.segments.end(),
                                      [&](const Segment& s) { return after(s) <= first; });
  for (int64_t row = first; row < last;) {
    if (segment == table.segments.end() || segment->row_begin >= last) {
      f(static_cast<const Segment*>(nullptr), row, last);
      return;
    }
    if (row < segment->row_begin) {
      f(static_cast<const Segment*>(nullptr), row, int64_t{segment->row_begin});
      row = segment->row_begin;
    }
    const int64_t end = std::min(after(*segment), last);
    if (row < end) f(&*segment, row, end);
    row = std::max(row, end);
    ++segment;
  }
}

}  // namespace mainspring::cpu

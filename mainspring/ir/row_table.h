// The segment table: which rows of an activation [rows, d] belong to which sequence.
//
// The one idea: a training batch of packed sequences, a prefill chunk and a decode step are the
// same thing, runs of rows with absolute positions. Sequences start on even rows
// (docs/exactness.md, rule 9), so an odd one is followed by one padding row that belongs to no
// segment.
#pragma once

#include <cstdint>
#include <span>

namespace mainspring {

/// A run of consecutive rows of one sequence, in increasing position.
struct Segment {
  int32_t row_begin = 0;  // even when whole sequences are packed
  int32_t num_rows = 0;
  int32_t position = 0;         // absolute position of the first row in its sequence
  int32_t adapter_slot = -1;    // index into the graph's adapter slots; -1: base weights only
  int32_t cache_sequence = -1;  // index into KvView::sequences; -1: keys are the segment's own rows
  uint32_t epoch = 0;           // with sample_index: the key of this sequence's random numbers
  uint64_t sample_index = 0;
};

/// What a run binds beside its buffers. All spans outlive the run.
/// Invariants: segments ordered by row_begin and disjoint; picked rows grouped by sequence, each
/// sequence's picks starting on an even pick (an odd count is followed by a pick of -1, a zero
/// row).
struct RowTable {
  int32_t num_rows = 0;  // rows of the activation, padding rows included
  std::span<const Segment> segments;
  std::span<const int32_t> picked;  // rows that reach the head; -1 is a zero row
};

}  // namespace mainspring

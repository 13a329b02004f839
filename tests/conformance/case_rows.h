// Row layouts of the conformance cases: the same op must work on an empty batch, a single row and
// packed sequences of odd lengths under different adapter slots.
#pragma once

#include <string>
#include <vector>

#include "mainspring/ir/row_table.h"

namespace mainspring::conformance {

/// One sequence of a layout.
struct Sequence {
  int32_t length = 0;
  int32_t slot = -1;
  int32_t position = 0;  // of its first row; others than 0 only with a cache
  int32_t cache_sequence = -1;
};

/// A run's rows, owning what its tables point into.
struct Rows {
  std::string name;
  int32_t num_rows = 0;
  std::vector<Segment> segments;
  std::vector<int32_t> picked;
  std::vector<Segment> pick_segments;

  RowTable table() const { return {num_rows, segments, picked}; }
  RowTable pick_table() const { return {static_cast<int32_t>(picked.size()), pick_segments, {}}; }
};

/// Packs sequences as training does: each on an even row, every row but each sequence's first
/// picked, odd counts of picks completed by -1.
Rows make_rows(std::string name, const std::vector<Sequence>& sequences);

/// No rows; one row; packed sequences of 5, 2, 1 and 33 rows in slots 0, none, 1 and 0.
const std::vector<Rows>& standard_rows();

/// Packed sequences of 3, 2 and 4 rows in slots 0, none and 1: enough for central differences.
const Rows& small_rows();

}  // namespace mainspring::conformance

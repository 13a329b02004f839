// The packer: datums to micro-batches of packed rows, without padding waste.
//
// The one idea: sequences follow each other in sample order, each on an even row, whole; how many
// share a micro-batch changes no bit (docs/exactness.md, rule 9). Only rows whose weight is not
// zero are picked for the head.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mainspring/batch/datum.h"
#include "mainspring/ir/row_table.h"

namespace mainspring {

/// A datum with the adapter slot it runs under.
struct PackItem {
  const Datum* datum = nullptr;
  int32_t slot = -1;
};

/// One packed micro-batch; the tables' spans point into its vectors.
struct Batch {
  std::vector<int32_t> tokens;  // (rows)
  std::vector<Segment> segments;
  std::vector<int32_t> picked;         // rows; -1 completes an odd count
  std::vector<Segment> pick_segments;  // picks of each sequence, cut at the fold's 2,048 positions
  std::vector<int32_t> targets;        // (picked)
  std::vector<float> weights;          // (picked); 0 for -1
  /// Where a pick's result belongs: item number and position in its datum; item -1 for padding.
  struct PickOrigin {
    int32_t item = -1;
    int32_t position = 0;
  };
  std::vector<PickOrigin> origins;  // (picked)

  RowTable row_table() const;
  /// The picks as rows of their own, for gradients folded over picks.
  RowTable pick_table() const;
};

/// Rows that a sequence of n tokens takes: n, completed to even.
constexpr int64_t rows_of_sequence(int64_t num_tokens) { return num_tokens + (num_tokens & 1); }

/// Cuts items, in order, into runs of at most `max_rows` rows; a longer sequence gets a run of its
/// own. Returns the number of items in each run.
std::vector<size_t> split_into_micro_batches(std::span<const PackItem> items, int64_t max_rows);

/// Packs one run. `pick_all` picks every row, whatever its weight (to score all tokens).
Batch pack(std::span<const PackItem> items, bool pick_all = false);

/// (picked, 1 + num_candidates): the target, then candidates; the target again where there is none.
std::vector<int32_t> pack_candidates(const Batch& batch, std::span<const PackItem> items,
                                     int64_t num_candidates);

/// `name` of the datum's per-token inputs, by pick, 0 for padding. Precondition: every datum has
/// it.
std::vector<float> pack_input(const Batch& batch, std::span<const PackItem> items,
                              const std::string& name);

}  // namespace mainspring

// Dropout of activation rows (docs/exactness.md, rule 18).
//
// The one idea: a row's key is Philox of (layer key, sample index, epoch, position); the mask of
// channel j is word j % 4 of Philox(row key, j / 4). So packing, threads and micro-batches do not
// change it. The masks themselves are made by the path's kernels (kernels/linear_dropout.h).
// Internal to exec/cpu.
#pragma once

#include <array>
#include <cstdint>

#include "mainspring/exec/cpu/kernels/linear_table.h"
#include "mainspring/ir/row_table.h"

namespace mainspring::cpu {

/// The segment that holds `row`; one of them must.
const Segment& segment_of(const RowTable& table, int64_t row);

/// The masks of up to kMaxTileRows rows of one layer.
class DropoutRows {
 public:
  /// `p` in [0, 1).
  DropoutRows(uint64_t layer_key, float p);

  /// The next row, of `segment`.
  void add(const Segment& segment, int64_t row);
  /// A row that is left alone.
  void skip() { ++rows_; }

  /// x (rows added, columns) floats in place, from `column` (a multiple of 4) on.
  void apply(const LinearKernels& kernels, int64_t column, int64_t columns, float* x,
             int64_t x_stride) const;

  /// Columns [column, column + columns) of rows of the compute dtype, one pointer per row added,
  /// masked and rounded into out rows `out_stride` bytes apart. Skipped rows are not read or
  /// written.
  void apply_rounded(const LinearKernels& kernels, const void* const* rows, int64_t column,
                     int64_t columns, void* out, int64_t out_stride) const;

 private:
  std::array<uint32_t, 2> key_;
  uint32_t threshold_;
  float scale_;
  int rows_ = 0;
  uint32_t mask_ = 0;
  uint32_t counters_[kMaxTileRows][4] = {};
};

}  // namespace mainspring::cpu

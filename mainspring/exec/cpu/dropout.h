// The dropout mask of one row of one layer (docs/exactness.md, rule 18).
//
// The one idea: a row's key is Philox of (layer key, sample index, epoch, position); the mask of
// channel j is word j % 4 of Philox(row key, j / 4). So packing, threads and micro-batches do not
// change it. Internal to exec/cpu.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mainspring/base/bf16.h"
#include "mainspring/base/philox.h"
#include "mainspring/exec/cpu/kernels/linear_table.h"
#include "mainspring/ir/row_table.h"

namespace mainspring::cpu {

class DropoutRow {
 public:
  /// The mask of `row` of `segment`; `p` in [0, 1).
  DropoutRow(uint64_t layer_key, float p, const Segment& segment, int64_t row)
      : scale_(1.0f / (1.0f - p)),
        threshold_(static_cast<uint64_t>(static_cast<double>(p) * 4294967296.0)) {
    const PhiloxCounter words =
        philox4x32({static_cast<uint32_t>(segment.sample_index),
                    static_cast<uint32_t>(segment.sample_index >> 32), segment.epoch,
                    static_cast<uint32_t>(segment.position + (row - segment.row_begin))},
                   philox_key(layer_key));
    key_ = {words[0], words[1]};
  }

  /// x[i] = keep(channel + i) ? x[i] * scale : 0, for n channels.
  void apply(int64_t channel, int64_t n, float* x) const {
    for (int64_t i = 0; i < n;) {
      const int64_t group = (channel + i) / 4;
      const PhiloxCounter words = philox4x32({static_cast<uint32_t>(group), 0, 0, 0}, key_);
      for (int64_t lane = (channel + i) % 4; lane < 4 && i < n; ++lane, ++i) {
        x[i] = words[static_cast<size_t>(lane)] >= threshold_ ? x[i] * scale_ : 0.0f;
      }
    }
  }

  /// Channels [column, column + n) of a row of the compute dtype under the mask, rounded, into
  /// `out`.
  void apply_rounded(const LinearKernels& kernels, const void* row, int64_t column, int64_t n,
                     void* out) const {
    constexpr int64_t kPiece = 64;
    for (int64_t done = 0; done < n; done += kPiece) {
      float values[kPiece];
      const int64_t count = std::min(kPiece, n - done);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = column + done + i;
        values[i] = kernels.element_bytes == 4 ? static_cast<const float*>(row)[at]
                                               : to_f32(static_cast<const bf16*>(row)[at]);
      }
      apply(column + done, count, values);
      kernels.round_values(values, count, false,
                           static_cast<char*>(out) + done * kernels.element_bytes);
    }
  }

 private:
  float scale_;
  uint64_t threshold_;
  PhiloxKey key_{};
};

/// The segment that holds `row`; one of them must.
inline const Segment& segment_of(const RowTable& table, int64_t row) {
  const auto it = std::partition_point(
      table.segments.begin(), table.segments.end(),
      [&](const Segment& segment) { return segment.row_begin + segment.num_rows <= row; });
  return *it;
}

}  // namespace mainspring::cpu

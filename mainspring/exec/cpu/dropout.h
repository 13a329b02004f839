// The dropout mask of one row of one layer (docs/exactness.md, rule 18).
//
// The one idea: a row's key is Philox of (layer key, sample index, epoch, position); the mask of channel j
// is word j % 4 of Philox(row key, j / 4). So packing, threads and micro-batches do not change it.
// Internal to exec/cpu.
#pragma once

#include <cstdint>

#include "mainspring/base/philox.h"
#include "mainspring/batch/row_table.h"

namespace mainspring::cpu {

class DropoutRow {
 public:
  /// The mask of `row`; `p` in [0, 1). A row in no segment keeps everything.
  DropoutRow(uint64_t layer_key, float p, const RowTable& table, int64_t row)
      : scale_(1.0f / (1.0f - p)),
        threshold_(static_cast<uint64_t>(static_cast<double>(p) * 4294967296.0)) {
    for (const Segment& segment : table.segments) {
      const int64_t offset = row - segment.row_begin;
      if (offset < 0 || offset >= segment.num_rows) continue;
      const PhiloxCounter words =
          philox4x32({static_cast<uint32_t>(segment.sample_index),
                      static_cast<uint32_t>(segment.sample_index >> 32), segment.epoch,
                      static_cast<uint32_t>(segment.position + offset)},
                     philox_key(layer_key));
      key_ = {words[0], words[1]};
      return;
    }
    scale_ = 1.0f;
    threshold_ = 0;
  }

  float scale() const { return scale_; }

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

 private:
  float scale_;
  uint64_t threshold_;
  PhiloxKey key_{};
};

}  // namespace mainspring::cpu

// Inverted dropout of one row, keyed by what the row is (docs/exactness.md, rule 18).
//
// The row's key is Philox of the layer's key at (sample index, epoch, position); channel j is kept
// where word j % 4 of Philox(row key, j / 4) is at least p * 2^32, and then divided by 1 - p.
#pragma once

#include <cstdint>
#include <vector>

#include "mainspring/base/philox.h"
#include "mainspring/ir/row_table.h"

namespace mainspring::ref {

struct Dropout {
  float p = 0.0f;
  uint64_t layer_key = 0;
};

/// x = kept ? x / (1 - p) : 0, for row `row` of `segment`. p = 0 keeps x as it is.
inline void apply_dropout(const Dropout& dropout, const Segment& segment, int64_t row,
                          std::vector<double>& x) {
  if (dropout.p == 0.0f) return;
  const auto position = static_cast<uint32_t>(segment.position + row - segment.row_begin);
  const PhiloxCounter sample{static_cast<uint32_t>(segment.sample_index),
                             static_cast<uint32_t>(segment.sample_index >> 32), segment.epoch,
                             position};
  const PhiloxCounter row_bits = philox4x32(sample, philox_key(dropout.layer_key));
  const PhiloxKey row_key{row_bits[0], row_bits[1]};
  for (size_t j = 0; j < x.size(); ++j) {
    const PhiloxCounter words = philox4x32({static_cast<uint32_t>(j / 4), 0, 0, 0}, row_key);
    const bool is_kept = words[j % 4] >= static_cast<uint64_t>(double{dropout.p} * 0x1p32);
    x[j] = is_kept ? x[j] / (1.0 - double{dropout.p}) : 0.0;
  }
}

}  // namespace mainspring::ref

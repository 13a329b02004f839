#include "mainspring/exec/cpu/dropout.h"

#include <algorithm>
#include <cstring>

#include "mainspring/base/bf16.h"
#include "mainspring/base/philox.h"

namespace mainspring::cpu {

const Segment& segment_of(const RowTable& table, int64_t row) {
  return *std::partition_point(
      table.segments.begin(), table.segments.end(),
      [&](const Segment& segment) { return segment.row_begin + segment.num_rows <= row; });
}

DropoutRows::DropoutRows(uint64_t layer_key, float p)
    : key_(philox_key(layer_key)),
      threshold_(static_cast<uint32_t>(static_cast<double>(p) * 4294967296.0)),
      scale_(1.0f / (1.0f - p)) {}

void DropoutRows::add(const Segment& segment, int64_t row) {
  uint32_t(&counter)[4] = counters_[rows_];
  counter[0] = static_cast<uint32_t>(segment.sample_index);
  counter[1] = static_cast<uint32_t>(segment.sample_index >> 32);
  counter[2] = segment.epoch;
  counter[3] = static_cast<uint32_t>(segment.position + (row - segment.row_begin));
  mask_ |= 1u << rows_++;
}

void DropoutRows::apply(const LinearKernels& kernels, int64_t column, int64_t columns, float* x,
                        int64_t x_stride) const {
  DropoutTile tile;
  tile.row_counters = counters_;
  tile.key[0] = key_[0];
  tile.key[1] = key_[1];
  tile.threshold = threshold_;
  tile.scale = scale_;
  tile.row_mask = mask_;
  tile.rows = rows_;
  tile.column = column;
  tile.columns = columns;
  tile.x = x;
  tile.x_stride = x_stride;
  kernels.dropout(tile);
}

void DropoutRows::apply_rounded(const LinearKernels& kernels, const void* const* rows,
                                int64_t column, int64_t columns, void* out,
                                int64_t out_stride) const {
  constexpr int64_t kSlice = 64;
  float x[kMaxTileRows][kSlice];
  for (int64_t done = 0; done < columns; done += kSlice) {
    const int64_t n = std::min(kSlice, columns - done);
    for (int r = 0; r < rows_; ++r) {
      if (((mask_ >> r) & 1u) == 0) continue;
      if (kernels.element_bytes == 4) {
        const float* from = static_cast<const float*>(rows[r]) + column + done;
        std::memcpy(x[r], from, static_cast<size_t>(n) * sizeof(float));
      } else {
        const bf16* from = static_cast<const bf16*>(rows[r]) + column + done;
        std::transform(from, from + n, x[r], [](bf16 value) { return to_f32(value); });
      }
    }
    apply(kernels, column + done, n, x[0], kSlice);
    for (int r = 0; r < rows_; ++r) {
      if (((mask_ >> r) & 1u) == 0) continue;
      char* to = static_cast<char*>(out) + r * out_stride + done * kernels.element_bytes;
      kernels.round_values(x[r], n, false, to);
    }
  }
}

}  // namespace mainspring::cpu

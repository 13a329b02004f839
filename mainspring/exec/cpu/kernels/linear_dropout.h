// Dropout masks, 16 Philox counters at a time.
//
// The one idea: a lane is one (row, group of four channels), so narrow tiles of many rows and wide
// slices of one row fill the vector alike. About 240 operations make the masks of 64 values.
// Included by a path's unit after simd.h.
#pragma once

#include "mainspring/exec/cpu/kernels/linear_table.h"
#include "mainspring/exec/cpu/kernels/philox.h"

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

MS_INLINE void dropout_row_keys(const DropoutTile& d, int32_t (&keys)[2][16]) {
  int32_t counters[4][16] = {};
  for (int r = 0; r < d.rows; ++r) {
    for (int w = 0; w < 4; ++w) counters[w][r] = static_cast<int32_t>(d.row_counters[r][w]);
  }
  const Philox16 out =
      philox16({{iload(counters[0]), iload(counters[1]), iload(counters[2]), iload(counters[3])}},
               iset(static_cast<int32_t>(d.key[0])), iset(static_cast<int32_t>(d.key[1])));
  istore(keys[0], out.c[0]);
  istore(keys[1], out.c[1]);
}

/// Applies the masks of `lanes` groups: lane i is group `group[i]` of row `row[i]`.
MS_INLINE void dropout_lanes(const DropoutTile& d, const int32_t (&keys)[2][16], int lanes,
                             const int (&row)[16], const int64_t (&group)[16]) {
  int32_t counter[16] = {}, k0[16] = {}, k1[16] = {};
  for (int i = 0; i < lanes; ++i) {
    counter[i] = static_cast<int32_t>(d.column / 4 + group[i]);
    k0[i] = keys[0][row[i]];
    k1[i] = keys[1][row[i]];
  }
  const Philox16 out =
      philox16({{iload(counter), iset(0), iset(0), iset(0)}}, iload(k0), iload(k1));
  // Unsigned word >= threshold, as a comparison of signed words; kept lanes are all ones.
  int32_t keep[4][16];
  const I16 sign = iset(INT32_MIN);
  const I16 limit = ixor(iset(static_cast<int32_t>(d.threshold)), sign);
  for (int w = 0; w < 4; ++w) {
    istore(keep[w], iselect(igt(limit, ixor(out.c[w], sign)), iset(0), iset(-1)));
  }
  for (int i = 0; i < lanes; ++i) {
    float* x = d.x + row[i] * d.x_stride + 4 * group[i];
    const int64_t left = d.columns - 4 * group[i];
    const int n = left < 4 ? static_cast<int>(left) : 4;
    for (int w = 0; w < n; ++w) {  // no branch on a random bit
      const float scaled = x[w] * d.scale;
      int32_t word;
      __builtin_memcpy(&word, &scaled, 4);
      word &= keep[w][i];
      __builtin_memcpy(&x[w], &word, 4);
    }
  }
}

inline void dropout_tile(const DropoutTile& d) {
  int32_t keys[2][16];
  dropout_row_keys(d, keys);
  const int64_t groups = (d.columns + 3) / 4;
  int row[16] = {};
  int64_t group[16] = {};
  int lanes = 0;
  for (int r = 0; r < d.rows; ++r) {
    if (((d.row_mask >> r) & 1u) == 0) continue;
    for (int64_t g = 0; g < groups; ++g) {
      row[lanes] = r;
      group[lanes] = g;
      if (++lanes < 16) continue;
      dropout_lanes(d, keys, lanes, row, group);
      lanes = 0;
    }
  }
  if (lanes > 0) dropout_lanes(d, keys, lanes, row, group);
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

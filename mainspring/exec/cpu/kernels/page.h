// A page of the key/value cache as attention reads it.
//
// The one idea: what pack_across and pack_along (tile.h) would make of a block of 64 keys lies in
// the page already, one kv head after the other, so decoding packs nothing and reads in order. A
// slot that was never written is read in one place only: as the odd half of the last pair of
// values, which is zeroed when its even half is written. Included after tile.h and
// attention_forward.h.
#pragma once

#include "mainspring/exec/cpu/kernels/rows_table.h"

namespace mainspring::cpu::MS_ISA_NAMESPACE {

/// Elements of one kv head in a page.
MS_INLINE int64_t page_head_elements(int64_t width) { return kBlock * align_up(width, 16); }

/// Puts a key (width) into its column of the block: word s of it at [slot / 16][s][slot % 16].
template <class M>
MS_INLINE void put_key(const typename M::Value* key, int64_t width, int64_t slot,
                       typename M::Value* block) {
  const int steps = num_steps<M>(width);
  auto* words = reinterpret_cast<uint32_t*>(block) + slot / 16 * 16 * steps + slot % 16;
  for (int step = 0; step < steps; ++step) {
    uint32_t word = 0;
    const int64_t left = width - M::kStep * step;
    __builtin_memcpy(&word, key + M::kStep * step,
                     left < M::kStep ? sizeof(typename M::Value) : sizeof(word));
    words[16 * step] = word;
  }
}

/// Puts a value (width) into its row of the block: element j in lane j % 16 of panel j / 16, at
/// step slot / kStep.
template <class M>
MS_INLINE void put_value(const typename M::Value* value, int64_t width, int64_t slot, bool is_last,
                         typename M::Value* block) {
  constexpr int64_t kPanel = kBlock * 16;  // elements
  typename M::Value* row = block + slot / M::kStep * 16 * M::kStep + slot % M::kStep;
  const bool completes = M::kStep == 2 && is_last && slot % 2 == 0;
  for (int64_t j = 0; j < width; ++j) {
    typename M::Value* place = row + j / 16 * kPanel + j % 16 * M::kStep;
    *place = value[j];
    if (completes) place[1] = 0;
  }
}

template <class M>
void write_page_rows(const PageRows& p) {
  const int64_t stride = p.heads * p.width;
  const int64_t head_elements = page_head_elements(p.width);
  for (int64_t row = 0; row < p.rows; ++row) {
    const bool is_last = p.is_last && row + 1 == p.rows;
    for (int64_t head = 0; head < p.heads; ++head) {
      const int64_t at = row * stride + head * p.width;
      put_key<M>(M::in(p.k) + at, p.width, p.slot + row, M::out(p.keys) + head * head_elements);
      put_value<M>(M::in(p.v) + at, p.width, p.slot + row, is_last,
                   M::out(p.values) + head * head_elements);
    }
  }
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

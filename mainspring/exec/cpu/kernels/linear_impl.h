// Fills a path's LinearTable from a tile configuration. Included by a path's unit after simd.h.
#pragma once

#include "mainspring/exec/cpu/kernels/decode.h"
#include "mainspring/exec/cpu/kernels/linear_dropout.h"
#include "mainspring/exec/cpu/kernels/linear_pack.h"
#include "mainspring/exec/cpu/kernels/linear_table.h"
#include "mainspring/exec/cpu/kernels/linear_tile.h"

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

/// Panels a tile of few rows takes at once: as many as keep its accumulators within those of a full
/// tile.
constexpr int wide_panels(int rows, int full_rows) {
  const int panels = full_rows / rows;
  return panels > kMaxTilePanels ? kMaxTilePanels : panels;
}

template <class C, int R>
constexpr void fill_tiles(LinearKernels& k) {
  constexpr int kWide = wide_panels(R, C::kRows);
  static_assert(R * kWide * C::kColumns <= kMaxTileFloats);
  k.tile[R - 1][0] = &tile<C, R, 1>;
  k.tile[R - 1][kWide - 1] = &tile<C, R, kWide>;
  k.wide_panels[R - 1] = kWide;
  if constexpr (R > 1) fill_tiles<C, R - 1>(k);
}

template <class C>
constexpr LinearKernels make_linear_kernels() {
  static_assert(C::kRows <= kMaxTileRows);
  LinearKernels k;
  k.tile_rows = C::kRows;
  k.panel_columns = C::kColumns;
  k.a_pair_bytes = C::kABytes;
  k.b_pair_bytes = C::kBBytes;
  k.element_bytes = C::kF32 ? 4 : 2;
  fill_tiles<C, C::kRows>(k);
  k.pack_a_rows = &pack_a_rows<C>;
  k.pack_b_rows = &pack_b_rows<C>;
  k.pack_a_tokens = &pack_a_tokens<C>;
  k.pack_b_tokens = &pack_b_tokens<C>;
  k.decode[static_cast<int>(BlockFormat::kQ4_0)] = &decode_q4_0;
  k.decode[static_cast<int>(BlockFormat::kQ4_1)] = &decode_q4_1;
  k.decode[static_cast<int>(BlockFormat::kQ5_0)] = &decode_q5_0;
  k.decode[static_cast<int>(BlockFormat::kQ5_1)] = &decode_q5_1;
  k.decode[static_cast<int>(BlockFormat::kQ8_0)] = &decode_q8_0;
  k.decode[static_cast<int>(BlockFormat::kQ4_K)] = &decode_q4_k;
  k.decode[static_cast<int>(BlockFormat::kQ5_K)] = &decode_q5_k;
  k.decode[static_cast<int>(BlockFormat::kQ6_K)] = &decode_q6_k;
  k.decode[static_cast<int>(BlockFormat::kNf4)] = &decode_nf4;
  k.decode[static_cast<int>(BlockFormat::kInt8)] = &decode_int8;
  k.store = &store_tile<C::kF32>;
  k.round_values = &round_values<C::kF32>;
  k.dropout = &dropout_tile;
  k.add_tile = &add_tile;
  k.add_bias = &add_bias<C::kF32>;
  k.add_row = &add_row<C::kF32>;
  return k;
}

template <int kRows, int kVectors, bool kPairs>
constexpr LinearTable make_linear_table() {
  return {make_linear_kernels<TileConfig<kRows, kVectors, false, kPairs>>(),
          make_linear_kernels<TileConfig<kRows, kVectors, true, false>>()};
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

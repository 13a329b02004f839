// The linear kernels of one path: tiles of dot products, packing, and the store that rounds.
//
// The one idea: a tile is a few rows of A by one or more panels of B; how both are laid out in
// memory is the path's own choice, so drivers (exec/cpu/linear.cc and friends) only move opaque
// bytes whose sizes they read here. What a tile computes is fixed by rules 4 and 5 of
// docs/exactness.md and does not depend on its shape. "Pair": two neighbouring elements along the
// reduced dimension, an odd end completed by 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mainspring::cpu {

inline constexpr int kMaxTileRows = 16;
inline constexpr int kMaxTilePanels = 4;
/// Floats of the largest tile: rows * panels * panel columns.
inline constexpr int kMaxTileFloats = 1024;
/// Packing may write this many bytes of garbage behind what it packs.
inline constexpr int64_t kPackSlackBytes = 64;

/// One operand pair of a reduction. Chunk c covers pairs [c * chunk_pairs, (c + 1) * chunk_pairs),
/// cut at `pairs`.
struct TileTerm {
  const void* a = nullptr;  // packed rows, all pairs
  const void* b = nullptr;  // first panel, all pairs
  int64_t panel_bytes = 0;  // from one panel of b to the next
  int64_t pairs = 0;
  int64_t chunk_pairs = 0;
  // What the tile fetches meanwhile: this address for the first pair, so many bytes on for each
  // further one, and the same in each panel. Null: 4 KB ahead in b itself.
  const void* ahead = nullptr;
  int64_t ahead_bytes = 0;
};

/// c[i][j] = tree over chunks of (fold over terms, in order, of the chunk's pairs), + 0. With
/// load_c the fold starts at c (num_chunks must be 1). With y the result is rounded to the compute
/// dtype and goes there instead of to c. A tile may be computed in several calls, some chunks in
/// each: what waits in between is in `waiting`, the result comes with the last chunk.
struct TileArgs {
  const TileTerm* terms = nullptr;
  int num_terms = 0;
  int num_chunks = 1;
  int chunk_begin = 0;
  int chunk_end = 8;         // or num_chunks, if that is less
  float* waiting = nullptr;  // 3 tiles of floats, aligned to 64; null: one call has all chunks
  bool load_c = false;
  float* c = nullptr;
  int64_t c_stride = 0;  // floats from row to row
  void* y = nullptr;
  int64_t y_stride = 0;  // elements
};
using TileFn = void (*)(const TileArgs&);

/// Rows of some matrix, for packing along them (tokens of a weight gradient, rows of a stored
/// weight).
struct PackTokens {
  const void* first = nullptr;  // element (0, 0)
  int64_t stride = 0;           // elements from row to row
  int64_t rows = 0;             // an odd number is completed by a zero row
  int64_t column = 0;           // first column packed
  int64_t columns_end = 0;      // columns of the matrix: nothing at or beyond is read
  int num_columns = 0;          // columns packed (a tile's rows, or a panel)
  void* packed = nullptr;
};

/// y = round(((t * scale) or (t + bias)) + 0) for the rows of `row_mask`, zeros for the other rows.
struct StoreTile {
  const float* tile = nullptr;
  int64_t tile_stride = 0;
  int rows = 0;
  int64_t columns = 0;
  uint32_t row_mask = ~0u;
  bool zero_others = true;       // false: rows outside the mask are left alone
  const float* scale = nullptr;  // null: none
  const void* bias = nullptr;    // compute dtype, null: none
  void* y = nullptr;
  int64_t y_stride = 0;  // elements
  bool y_f32 = false;
};

/// Inverted dropout of a few rows of floats in place: x = kept ? x * scale : 0, where channel j of
/// a row is kept if word j % 4 of Philox(row key, j / 4) reaches the threshold, and the row's key
/// is the first two words of Philox(key, row counter).
struct DropoutTile {
  const uint32_t (*row_counters)[4] = nullptr;  // one per row
  uint32_t key[2] = {};
  uint32_t threshold = 0;
  float scale = 1.0f;
  uint32_t row_mask = ~0u;  // rows to change
  int rows = 0;             // up to kMaxTileRows
  int64_t column = 0;       // channel of x's first column, a multiple of 4
  int64_t columns = 0;
  float* x = nullptr;
  int64_t x_stride = 0;
};

/// Stored forms of weights in blocks of 32 (nf4: 64, the k forms: 256, int8: 1) values.
enum class BlockFormat { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K, kNf4, kInt8 };
inline constexpr int kNumBlockFormats = 10;

/// n values before any rounding, from value `first` of a tensor on, which begins `block` (in the k
/// forms: or is its value 128); n is a number of whole blocks (in the k forms: of halves). `aux`:
/// NF4's offset and scales of scales, or int8's scale of the values' row.
using DecodeFn = void (*)(const uint8_t* block, int64_t first, int64_t n, const float* aux,
                          float* out);

/// The kernels of one path for one compute dtype.
struct LinearKernels {
  int tile_rows = 0;      // most rows of a tile
  int panel_columns = 0;  // columns of a panel of B, a multiple of 16
  int a_pair_bytes = 0;   // bytes of one packed pair of one row
  int b_pair_bytes = 0;   // bytes of one packed pair of one column
  int element_bytes = 0;  // of the compute dtype

  /// tile[rows - 1][panels - 1]; present for one panel and for wide_panels[rows - 1] panels, the
  /// number that fills the registers when a tile has few rows.
  TileFn tile[kMaxTileRows][kMaxTilePanels] = {};
  int wide_panels[kMaxTileRows] = {};

  /// Packs up to tile_rows rows of k elements (null pointers: zero rows) as one tile's A.
  void (*pack_a_rows)(const void* const* rows, int num_rows, int64_t k, void* packed) = nullptr;
  /// Packs panel_columns rows of k elements (null: zeros) as one panel of B.
  void (*pack_b_rows)(const void* const* rows, int64_t k, void* packed) = nullptr;
  /// The same with pairs along the source's rows: columns become the tile's rows, or the panel's
  /// columns.
  void (*pack_a_tokens)(const PackTokens&) = nullptr;
  void (*pack_b_tokens)(const PackTokens&) = nullptr;

  DecodeFn decode[kNumBlockFormats] = {};
  void (*store)(const StoreTile&) = nullptr;
  /// n floats to the compute dtype, first through bf16 if asked.
  void (*round_values)(const float* x, int64_t n, bool through_bf16, void* y) = nullptr;
  void (*dropout)(const DropoutTile&) = nullptr;
  /// c[r][j] += x[r][j] (+ 0) for the rows of the mask.
  void (*add_tile)(const float* x, int64_t x_stride, int rows, int64_t columns, uint32_t row_mask,
                   float* c, int64_t c_stride) = nullptr;
  /// c[r][j] += bias[j] (compute dtype).
  void (*add_bias)(const void* bias, int rows, int64_t columns, float* c,
                   int64_t c_stride) = nullptr;
  /// acc[j] += x[j] (+ 0), x of the compute dtype.
  void (*add_row)(const void* x, int64_t n, float* acc) = nullptr;
};

struct LinearTable {
  LinearKernels bf16;
  LinearKernels f32;
};

namespace scalar {
const LinearTable& linear_table();
}
namespace avx2 {
const LinearTable& linear_table();
}
namespace avx512 {
const LinearTable& linear_table();
}
namespace avx512bf16 {
const LinearTable& linear_table();
}

}  // namespace mainspring::cpu

// Packing of both operands of a tile, and the stores behind it.
//
// The one idea: along a row, a pair of bf16 and an f32 are both 32-bit words, so packing rows is an
// 8 x 8 transposition of words; across rows it is a zip of two of them. Stores may write up to
// kPackSlackBytes of garbage behind a tile, overwritten by what is packed next.
// Included by a path's unit after simd.h and linear_tile.h.
#pragma once

#include "mainspring/exec/cpu/kernels/linear_table.h"

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

/// Words [word, word + 8) of a row of `bytes` bytes; zeros beyond its end and for a null row.
MS_INLINE U8 row_words(const void* row, int64_t word, int64_t bytes) {
  alignas(32) uint32_t buffer[8] = {};
  const int64_t left = bytes - 4 * word;
  if (row == nullptr || left <= 0) return load_words(buffer);
  const char* p = static_cast<const char*>(row) + 4 * word;
  if (left >= 32) return load_words(p);
  __builtin_memcpy(buffer, p, static_cast<size_t>(left));
  return load_words(buffer);
}

/// Lays `count` words of all rows, transposed in t, side by side; returns where the next go.
template <int G, bool kExpand>
MS_INLINE uint32_t* put_words(const U8 (&t)[G][8], int count, int n, uint32_t* out) {
  for (int w = 0; w < count; ++w) {
    if constexpr (kExpand) {
      for (int g = 0; g < G; ++g) store_words(out + 8 * g, upper_halves(t[g][w]));
      out += n;
      for (int g = 0; g < G; ++g) store_words(out + 8 * g, lower_halves_up(t[g][w]));
      out += n;
    } else {
      for (int g = 0; g < G; ++g) store_words(out + 8 * g, t[g][w]);
      out += n;
    }
  }
  return out;
}

/// Packs `n` rows (8 * (G - 1) < n <= 8 * G) of k elements: word w of all rows side by side;
/// expanded, a word becomes its odd element of all rows, then its even one.
template <int G, bool kF32, bool kExpand>
MS_INLINE void pack_rows(const void* const* rows, int n, int64_t k, void* packed) {
  const int64_t bytes = k * (kF32 ? 4 : 2);
  const int64_t words = kF32 ? 2 * ((k + 1) / 2) : (k + 1) / 2;
  uint32_t* out = static_cast<uint32_t*>(packed);
  // Rows beyond n are the last one again: what they give is overwritten, or never read.
  const char* sources[8 * G];
  bool has_null = false;
  for (int i = 0; i < 8 * G; ++i) {
    sources[i] = static_cast<const char*>(rows[i < n ? i : n - 1]);
    has_null = has_null || sources[i] == nullptr;
  }
  int64_t word = 0;
  U8 t[G][8];
  for (; !has_null && 4 * word + 32 <= bytes; word += 8) {
    for (int g = 0; g < G; ++g) {
      for (int i = 0; i < 8; ++i) t[g][i] = load_words(sources[8 * g + i] + 4 * word);
      transpose_words(t[g]);
    }
    out = put_words<G, kExpand>(t, 8, n, out);
  }
  for (; word < words; word += 8) {
    for (int g = 0; g < G; ++g) {
      for (int i = 0; i < 8; ++i) t[g][i] = row_words(sources[8 * g + i], word, bytes);
      transpose_words(t[g]);
    }
    out = put_words<G, kExpand>(t, words - word < 8 ? static_cast<int>(words - word) : 8, n, out);
  }
}

template <class C>
void pack_a_rows(const void* const* rows, int num_rows, int64_t k, void* packed) {
  constexpr int kGroups = (C::kRows + 7) / 8;
  if constexpr (kGroups == 2) {
    if (num_rows <= 8)
      return pack_rows < 1, C::kF32, !C::kPairs && !C::kF32 > (rows, num_rows, k, packed);
  }
  pack_rows<kGroups, C::kF32, !C::kPairs && !C::kF32>(rows, num_rows, k, packed);
}

template <class C>
void pack_b_rows(const void* const* rows, int64_t k, void* packed) {
  pack_rows<C::kColumns / 8, C::kF32, false>(rows, C::kColumns, k, packed);
}

/// Up to 16 elements of a row as floats; a null row is zeros.
template <bool kF32>
MS_INLINE F16 row_floats(const void* row, int64_t column, int n) {
  if (row == nullptr || n <= 0) return zero();
  if constexpr (kF32) {
    const float* p = static_cast<const float*>(row) + column;
    return n >= 16 ? load(p) : load_n(p, n);
  } else {
    const uint16_t* p = static_cast<const uint16_t*>(row) + column;
    return n >= 16 ? load_bf16(p) : load_bf16_n(p, n);
  }
}

/// Up to 16 pairs of two bf16 rows; a null odd row is zeros.
MS_INLINE P16 row_pairs(const void* even, const void* odd, int64_t column, int n) {
  alignas(32) const uint16_t zeros[16] = {};
  if (n <= 0) return zip_pairs(zeros, zeros);
  const uint16_t* e = static_cast<const uint16_t*>(even) + column;
  const uint16_t* o = odd == nullptr ? zeros : static_cast<const uint16_t*>(odd) + column;
  return n >= 16 ? zip_pairs(e, o) : zip_pairs_n(e, o, n);
}

MS_INLINE int clamp16(int64_t n) { return n > 16 ? 16 : n < 0 ? 0 : static_cast<int>(n); }

/// Rows `even` and `odd` (null: zeros), columns [column, column + n), as one pair of a tile's A.
template <class C>
MS_INLINE void put_pair(const char* even, const char* odd, int64_t column, int n, int64_t stride,
                        float* out) {
  if constexpr (C::kPairs) {
    store_pairs(reinterpret_cast<uint32_t*>(out), row_pairs(even, odd, column, n));
  } else {
    store(out, row_floats<C::kF32>(C::kF32 ? even : odd, column, n));
    store(out + stride, row_floats<C::kF32>(C::kF32 ? odd : even, column, n));
  }
}

template <class C>
void pack_a_tokens(const PackTokens& p) {
  // Copies: what is stored could be p's own fields, for all the compiler knows.
  const int64_t row_bytes = p.stride * (C::kF32 ? 4 : 2);
  const int64_t rows = p.rows, column = p.column, stride = p.num_columns;
  const int64_t out_stride = C::kPairs ? stride : 2 * stride;
  const char* even = static_cast<const char*>(p.first);
  float* out = static_cast<float*>(p.packed);
  const int n = clamp16(p.columns_end - column);
  int64_t row = 0;
  if (n == 16) {
    for (; row + 2 <= rows; row += 2, even += 2 * row_bytes, out += out_stride) {
      put_pair<C>(even, even + row_bytes, column, 16, stride, out);
    }
  }
  for (; row < rows; row += 2, even += 2 * row_bytes, out += out_stride) {
    put_pair<C>(even, row + 1 < rows ? even + row_bytes : nullptr, column, n, stride, out);
  }
}

/// Rows `even` and `odd` (null: zeros) as one pair of a panel whose vector v has n[v] columns.
template <class C>
MS_INLINE void put_panel_pair(const char* even, const char* odd, int64_t column, const int* n,
                              char* out) {
  for (int v = 0; v < C::kVectors; ++v) {
    const int64_t c = column + 16 * v;
    if constexpr (C::kF32) {
      store(reinterpret_cast<float*>(out) + 16 * v, row_floats<true>(even, c, n[v]));
      store(reinterpret_cast<float*>(out) + C::kColumns + 16 * v, row_floats<true>(odd, c, n[v]));
    } else {
      store_pairs(reinterpret_cast<uint32_t*>(out) + 16 * v, row_pairs(even, odd, c, n[v]));
    }
  }
}

template <class C>
void pack_b_tokens(const PackTokens& p) {
  const int64_t row_bytes = p.stride * (C::kF32 ? 4 : 2);
  const int64_t rows = p.rows, column = p.column;
  const char* even = static_cast<const char*>(p.first);
  char* out = static_cast<char*>(p.packed);
  int n[C::kVectors];
  for (int v = 0; v < C::kVectors; ++v) n[v] = clamp16(p.columns_end - column - 16 * v);
  int64_t row = 0;
  if (n[C::kVectors - 1] == 16) {
    constexpr int kWhole[4] = {16, 16, 16, 16};
    for (; row + 2 <= rows; row += 2, even += 2 * row_bytes, out += C::kBBytes * C::kColumns) {
      put_panel_pair<C>(even, even + row_bytes, column, kWhole, out);
    }
  }
  for (; row < rows; row += 2, even += 2 * row_bytes, out += C::kBBytes * C::kColumns) {
    put_panel_pair<C>(even, row + 1 < rows ? even + row_bytes : nullptr, column, n, out);
  }
}

template <bool kF32>
MS_INLINE void store_element(void* y, int64_t index, F16 x, int n) {
  if constexpr (kF32) {
    float* p = static_cast<float*>(y) + index;
    n == 16 ? store(p, x) : store_n(p, x, n);
  } else {
    uint16_t* p = static_cast<uint16_t*>(y) + index;
    n == 16 ? store_bf16(p, x) : store_bf16_n(p, x, n);
  }
}

/// A whole tile as it is: each value had +0 added where it was made.
template <bool kF32>
MS_INLINE void store_whole(const StoreTile& s) {
  for (int r = 0; r < s.rows; ++r) {
    const float* t = s.tile + r * s.tile_stride;
    for (int64_t j = 0; j < s.columns; j += 32) {
      const F16 x = load(t + j), y = load(t + j + 16);
      if constexpr (kF32) {
        float* p = static_cast<float*>(s.y) + r * s.y_stride + j;
        store(p, x);
        store(p + 16, y);
      } else {
        store_bf16_pair(static_cast<uint16_t*>(s.y) + r * s.y_stride + j, x, y);
      }
    }
  }
}

template <bool kF32>
void store_tile(const StoreTile& s) {
  const uint32_t all = (1u << s.rows) - 1u;
  if ((s.row_mask & all) == all && s.scale == nullptr && s.bias == nullptr && s.columns % 32 == 0) {
    return s.y_f32 ? store_whole<true>(s) : store_whole<kF32>(s);
  }
  for (int r = 0; r < s.rows; ++r) {
    const bool live = (s.row_mask >> r) & 1u;
    if (!live && !s.zero_others) continue;
    for (int64_t j = 0; j < s.columns; j += 16) {
      const int n = clamp16(s.columns - j);
      F16 t = zero();
      if (live) {
        t = row_floats<true>(s.tile + r * s.tile_stride, j, n);
        if (s.scale != nullptr) t = mul(t, broadcast(*s.scale));
        if (s.bias != nullptr) t = add(t, row_floats<kF32>(s.bias, j, n));
        t = add(t, zero());
      }
      if (s.y_f32) {
        store_element<true>(s.y, r * s.y_stride + j, t, n);
      } else {
        store_element<kF32>(s.y, r * s.y_stride + j, t, n);
      }
    }
  }
}

template <bool kF32>
void round_values(const float* x, int64_t count, bool through_bf16, void* y) {
  for (int64_t j = 0; j < count; j += 16) {
    const int n = clamp16(count - j);
    F16 t = row_floats<true>(x, j, n);
    if (through_bf16 && kF32) t = round_bf16(t);  // the store rounds to bf16 anyway
    store_element<kF32>(y, j, t, n);
  }
}

inline void add_tile(const float* x, int64_t x_stride, int rows, int64_t columns, uint32_t row_mask,
                     float* c, int64_t c_stride) {
  for (int r = 0; r < rows; ++r) {
    if (((row_mask >> r) & 1u) == 0) continue;
    for (int64_t j = 0; j < columns; j += 16) {
      const int n = clamp16(columns - j);
      const F16 sum =
          add(row_floats<true>(c + r * c_stride, j, n), row_floats<true>(x + r * x_stride, j, n));
      store_element<true>(c + r * c_stride, j, add(sum, zero()), n);
    }
  }
}

template <bool kF32>
void add_bias(const void* bias, int rows, int64_t columns, float* c, int64_t c_stride) {
  for (int r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; j += 16) {
      const int n = clamp16(columns - j);
      const F16 sum = add(row_floats<true>(c + r * c_stride, j, n), row_floats<kF32>(bias, j, n));
      store_element<true>(c + r * c_stride, j, sum, n);
    }
  }
}

template <bool kF32>
void add_row(const void* x, int64_t count, float* acc) {
  for (int64_t j = 0; j < count; j += 16) {
    const int n = clamp16(count - j);
    const F16 sum = add(row_floats<true>(acc, j, n), row_floats<kF32>(x, j, n));
    store_element<true>(acc, j, add(sum, zero()), n);
  }
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

// Small products for attention: up to 6 rows times panels of 16 columns, and the packing they read.
//
// The one idea: each output is one fold over the steps in increasing order (pairs in bf16,
// docs/exactness.md rules 4, 7, 8), kept in a register from its start value to its store, so tile
// shape changes no bit. 6 rows x 1 panel is 12 accumulators of 8 lanes on AVX2, enough to cover
// latency 4 at two a cycle with three registers to spare; AVX-512 takes 6 rows x 4 panels for its
// 32 registers.
#pragma once

#if defined(MS_ISA_SCALAR)
#define MS_UNROLL  // 16 lanes are a loop there already
#elif defined(__clang__)
#define MS_UNROLL _Pragma("unroll")
#else
#define MS_UNROLL _Pragma("GCC unroll 8")
#endif

namespace mainspring::cpu::MS_ISA_NAMESPACE {

inline constexpr int kTileRows = 6;
#if defined(MS_ISA_AVX512) || defined(MS_ISA_AVX512BF16) || defined(MS_WIDE_TILES)
inline constexpr int kTilePanels = 4;
#else
inline constexpr int kTilePanels = 1;
#endif

/// Keys (and query rows) in a block of attention.
inline constexpr int kBlock = 64;

/// What an accumulator starts from: zero, the output, or the output times its row's factor.
enum class Start { kZero, kLoad, kScale };

/// How the left operand lies: a row per output row with steps along it, or (kColumns) steps down
/// the rows of a (steps, kBlock) matrix whose columns are the output rows.
enum class Left { kRows, kColumns };

/// Storage of a left operand for Left::kColumns: floats [row][column], or pairs [row pair][column].
template <class M>
struct ColumnLeft {
  using Type = float;
};
#if defined(MS_PAIR_LEFT)
template <>
struct ColumnLeft<Bf16> {
  using Type = uint32_t;
};
#endif

template <class M, class L>
struct Product {
  const L* left;
  ptrdiff_t left_stride;  // kRows: between output rows; kColumns: unused
  const typename M::Lane* right;
  ptrdiff_t panel_stride;
  int step_begin;
  int step_end;
  float* out;
  ptrdiff_t out_stride;
  const float* factors;  // Start::kScale: one per row
};

/// Where a fold stands: both operands at its next step. Copied out of Product so that they stay in
/// registers.
template <class M, class L>
struct Cursor {
  const L* left;
  ptrdiff_t left_stride;
  const typename M::Lane* right;
  ptrdiff_t panel_stride;
};

/// Element `k` of the cursor's step in output row `row`.
template <Left kLeft, class M, class L>
MS_INLINE float left_value(const Cursor<M, L>& at, int row, int k) {
  if constexpr (kLeft == Left::kRows) {
    return at.left[row * at.left_stride + k];
  } else {
    return at.left[k * kBlock + row];
  }
}

#if defined(MS_PAIR_LEFT)
template <Left kLeft, class M, class L>
MS_INLINE uint32_t left_pair(const Cursor<M, L>& at, int row) {
  uint32_t pair;
  if constexpr (kLeft == Left::kRows) {
    __builtin_memcpy(&pair, at.left + row * at.left_stride, sizeof(pair));
  } else {
    pair = at.left[row];
  }
  return pair;
}
#endif

/// acc += element k of the left operand's rows times b.
template <Left kLeft, int kRows, int kPanels, class M, class L>
MS_INLINE void fold_element(F16 (&acc)[kRows][kPanels], const Cursor<M, L>& at, int k,
                            const F16 (&b)[kPanels]) {
  MS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const F16 a = broadcast(left_value<kLeft>(at, r, k));
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) acc[r][v] = fma(a, b[v], acc[r][v]);
  }
}

template <Left kLeft, int kRows, int kPanels, class M, class L>
MS_INLINE void fold_step(F16 (&acc)[kRows][kPanels], const Cursor<M, L>& at) {
  if constexpr (M::kStep == 1) {
    F16 b[kPanels];
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) b[v] = load(at.right + v * at.panel_stride);
    fold_element<kLeft>(acc, at, 0, b);
  } else {
#if defined(MS_PAIR_LEFT)
    P16 b[kPanels];
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) b[v] = load_pairs(at.right + v * at.panel_stride);
    MS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const P16 a = broadcast_pair(left_pair<kLeft>(at, r));
      MS_UNROLL
      for (int v = 0; v < kPanels; ++v) acc[r][v] = dot(acc[r][v], a, b[v]);
    }
#else
    F16 b[kPanels];
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) b[v] = pair_odd(load_pairs(at.right + v * at.panel_stride));
    fold_element<kLeft>(acc, at, 1, b);
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) b[v] = pair_even(load_pairs(at.right + v * at.panel_stride));
    fold_element<kLeft>(acc, at, 0, b);
#endif
  }
}

/// Left values from one step to the next.
template <class M, Left kLeft, class L>
constexpr ptrdiff_t left_advance() {
  if (kLeft == Left::kRows) return M::kStep;
  return sizeof(L) == sizeof(float) && M::kStep == 2 && sizeof(typename M::Left) == 2
             ? kBlock  // a row of pairs
             : M::kStep * kBlock;
}

template <class M, Start kStart, Left kLeft, int kRows, int kPanels, class L>
void fold_tile(const Product<M, L>& p, int panel) {
  constexpr ptrdiff_t kAdvance = left_advance<M, kLeft, L>();
  F16 acc[kRows][kPanels];
  float* out = p.out + panel * 16;
  MS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) {
      if constexpr (kStart == Start::kZero) {
        acc[r][v] = zero();
      } else {
        acc[r][v] = load(out + r * p.out_stride + v * 16);
        if constexpr (kStart == Start::kScale) acc[r][v] = mul(acc[r][v], broadcast(p.factors[r]));
      }
    }
  }
  Cursor<M, L> at{p.left + p.step_begin * kAdvance, p.left_stride,
                  p.right + panel * p.panel_stride + p.step_begin * 16, p.panel_stride};
  for (int steps = p.step_end - p.step_begin; steps > 0; --steps) {
    fold_step<kLeft>(acc, at);
    at.left += kAdvance;
    at.right += 16;
  }
  MS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    MS_UNROLL
    for (int v = 0; v < kPanels; ++v) store(out + r * p.out_stride + v * 16, acc[r][v]);
  }
}

template <class M, Start kStart, Left kLeft, int kRows, class L>
void fold_panels(const Product<M, L>& p, int panels) {
  int panel = 0;
  for (; panel + kTilePanels <= panels; panel += kTilePanels) {
    fold_tile<M, kStart, kLeft, kRows, kTilePanels>(p, panel);
  }
  if constexpr (kTilePanels > 1) {
    for (; panel < panels; ++panel) fold_tile<M, kStart, kLeft, kRows, 1>(p, panel);
  }
}

/// out (rows, panels * 16), rows in [1, 6]: the fold of every element.
template <class M, Start kStart, Left kLeft, class L>
MS_INLINE void fold_rows(const Product<M, L>& p, int rows, int panels) {
  switch (rows) {
    case 1:
      return fold_panels<M, kStart, kLeft, 1>(p, panels);
    case 2:
      return fold_panels<M, kStart, kLeft, 2>(p, panels);
    case 3:
      return fold_panels<M, kStart, kLeft, 3>(p, panels);
    case 4:
      return fold_panels<M, kStart, kLeft, 4>(p, panels);
    case 5:
      return fold_panels<M, kStart, kLeft, 5>(p, panels);
    default:
      return fold_panels<M, kStart, kLeft, 6>(p, panels);
  }
}

// ---- packing
// -------------------------------------------------------------------------------------

/// Steps of a fold over n elements.
template <class M>
MS_INLINE int num_steps(int64_t n) {
  return static_cast<int>((n + M::kStep - 1) / M::kStep);
}

/// Bit patterns of a row: one per step, a pair (bf16) or a float.
MS_INLINE uint32_t load_word(const void* row, int64_t word) {
  uint32_t value;
  __builtin_memcpy(&value, static_cast<const char*>(row) + 4 * word, sizeof(value));
  return value;
}

/// Transposes 8 rows of 8 words; rows at or beyond `valid` read as zeros. Row i of the result goes
/// to out + 16 * i.
MS_INLINE void transpose_8x8(const char* source, ptrdiff_t stride_bytes, int valid, uint32_t* out) {
  U8 r[8] = {};
  for (int i = 0; i < 8; ++i) {
    if (i < valid) r[i] = load_words(reinterpret_cast<const uint32_t*>(source + i * stride_bytes));
  }
  transpose_words(r);
  for (int i = 0; i < 8; ++i) store_words(out + 16 * i, r[i]);
}

/// Rows (n, c) to panels of 16 rows with steps along c: [kBlock / 16][steps of c][16], zero from
/// row n on to the end of its panel. Panels wholly beyond n are not written.
template <class M>
void pack_across(const typename M::Value* rows, ptrdiff_t stride, int n, int64_t c,
                 typename M::Lane* out) {
  const int steps = num_steps<M>(c);
  const ptrdiff_t stride_bytes = stride * static_cast<ptrdiff_t>(sizeof(*rows));
  auto* words = reinterpret_cast<uint32_t*>(out);
  for (int first = 0; first < n; first += 16) {
    const char* source = reinterpret_cast<const char*>(rows) + first * stride_bytes;
    uint32_t* panel = words + static_cast<ptrdiff_t>(first) * steps;
    int step = 0;
    for (; step + 8 <= steps; step += 8) {
      transpose_8x8(source + 4 * step, stride_bytes, n - first, panel + 16 * step);
      transpose_8x8(source + 8 * stride_bytes + 4 * step, stride_bytes, n - first - 8,
                    panel + 16 * step + 8);
    }
    for (; step < steps; ++step) {
      for (int i = 0; i < 16; ++i) {
        const uint32_t word = first + i < n ? load_word(source + i * stride_bytes, step) : 0u;
        __builtin_memcpy(panel + 16 * step + i, &word, sizeof(word));
      }
    }
  }
}

/// Rows (n, c) to panels of 16 columns with steps along the rows: [c16 / 16][kBlock / kStep][16],
/// zero in columns from c on and from row n on to the end of its step; later steps are not written.
template <class M>
void pack_along(const typename M::Value* rows, ptrdiff_t stride, int n, int64_t c,
                typename M::Lane* out) {
  const int steps = num_steps<M>(n);
  constexpr ptrdiff_t kPanel = kBlock / M::kStep * 16;
  for (int64_t column = 0; column < c; column += 16) {
    const int width = c - column < 16 ? static_cast<int>(c - column) : 16;
    typename M::Lane* panel = out + column / 16 * kPanel;
    for (int step = 0; step < steps; ++step) {
      const typename M::Value* row = rows + M::kStep * step * stride + column;
      if constexpr (M::kStep == 1) {
        store(panel + 16 * step, M::load_n(row, width));
      } else {
        const I16 even = bits(M::load_n(row, width));
        const I16 odd = 2 * step + 1 < n ? bits(M::load_n(row + stride, width)) : iset(0);
        istore(reinterpret_cast<int32_t*>(panel + 16 * step), ior(shr<16>(even), odd));
      }
    }
  }
}

/// Rows (n, c) to left operands (n, out_stride), zero in columns from c on to the next multiple
/// of 16.
template <class M>
void pack_left(const typename M::Value* rows, ptrdiff_t stride, int n, int64_t c,
               typename M::Left* out, ptrdiff_t out_stride) {
  for (int row = 0; row < n; ++row) {
    for (int64_t column = 0; column < c; column += 16) {
      const int width = c - column < 16 ? static_cast<int>(c - column) : 16;
      M::move_left(out + row * out_stride + column, rows + row * stride + column, width);
    }
  }
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

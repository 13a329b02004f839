// The micro-kernel of every linear reduction: rule 4 inside a chunk, rule 5's tree over chunks.
//
// The one idea: accumulators stay in registers over a chunk; finished chunk sums wait on the stack
// and are combined like a binary counter, which is the balanced tree. A tile of R rows and V
// vectors needs R * V accumulators and enough of them (8 or more FMA chains) to hide the latency: 6
// x 2 ymm on AVX2, 12 x 2 zmm on AVX-512; few rows take several panels at once instead. Included by
// a path's unit after simd.h.
#pragma once

#include "mainspring/exec/cpu/kernels/linear_table.h"

// Accumulators live in registers only if the loops over them are gone. The scalar path has none to
// save.
#if defined(MS_ISA_SCALAR)
#define MS_UNROLL(n)
#else
#define MS_UNROLL_TEXT(text) _Pragma(#text)
#define MS_UNROLL(n) MS_UNROLL_TEXT(GCC unroll n)
#endif

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

// How an A pair is stored: kExpanded, two floats per row in the order of their FMAs (bf16: odd,
// even; f32: even, odd), so that the inner loop only broadcasts; kPairs, the bf16 pair as one word
// (vdpbf16ps).
template <int kRows_, int kVectors_, bool kF32_, bool kPairs_>
struct TileConfig {
  static constexpr int kRows = kRows_;        // most rows of a tile
  static constexpr int kVectors = kVectors_;  // F16 vectors of a panel
  static constexpr int kColumns = 16 * kVectors_;
  static constexpr bool kF32 = kF32_;
  static constexpr bool kPairs = kPairs_;
  static constexpr int kABytes = kPairs_ ? 4 : 8;  // per pair and row
  static constexpr int kBBytes = kF32_ ? 8 : 4;    // per pair and column
};

MS_INLINE F16 broadcast_at(const char* p, int index) {
  float x;
  __builtin_memcpy(&x, p + 4 * index, 4);
  return broadcast(x);
}
MS_INLINE P16 broadcast_pair_at(const char* p, int index) {
  uint32_t x;
  __builtin_memcpy(&x, p + 4 * index, 4);
  return broadcast_pair(x);
}

/// Folds one pair into the accumulators.
template <class C, int R, int P>
MS_INLINE void fold_pair(F16 (&acc)[R][P * C::kVectors], const char* a, const char* const (&b)[P]) {
  constexpr int V = P * C::kVectors;
  if constexpr (C::kPairs) {
    P16 pairs[V];
    MS_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      pairs[v] = load_pairs(reinterpret_cast<const uint32_t*>(b[v / C::kVectors]) +
                            16 * (v % C::kVectors));
    }
    MS_UNROLL(16)
    for (int i = 0; i < R; ++i) {
      const P16 x = broadcast_pair_at(a, i);
      MS_UNROLL(8)
      for (int v = 0; v < V; ++v) acc[i][v] = dot(acc[i][v], x, pairs[v]);
    }
    return;
  }
  MS_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    F16 y[V];
    MS_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      const char* panel = b[v / C::kVectors];
      if constexpr (C::kF32) {
        y[v] = load(reinterpret_cast<const float*>(panel) + half * C::kColumns +
                    16 * (v % C::kVectors));
      } else {
        const P16 pairs =
            load_pairs(reinterpret_cast<const uint32_t*>(panel) + 16 * (v % C::kVectors));
        y[v] = half == 0 ? pair_odd(pairs) : pair_even(pairs);
      }
    }
    MS_UNROLL(16)
    for (int i = 0; i < R; ++i) {
      const F16 x = broadcast_at(a, half * R + i);
      MS_UNROLL(8)
      for (int v = 0; v < V; ++v) acc[i][v] = fma(x, y[v], acc[i][v]);
    }
  }
}

/// Both operands at a pair, and what is fetched meanwhile.
template <int P>
struct PairCursor {
  const char* a;
  const char* b[P];
  const char* ahead;
  int64_t ahead_bytes;
  int64_t panel_bytes;
};

/// Folds the cursor's pair and moves on.
template <class C, int R, int P>
MS_INLINE void fold_next(F16 (&acc)[R][P * C::kVectors], PairCursor<P>& at) {
  // Measured on Zen 3: 2-4 % for many rows, 30 % for 16, where B comes from memory.
  __builtin_prefetch(at.a + 512);
  MS_UNROLL(4)
  for (int p = 0; p < P; ++p) __builtin_prefetch(at.ahead + p * at.panel_bytes, 0, 2);
  at.ahead += at.ahead_bytes;
  fold_pair<C, R, P>(acc, at.a, at.b);
  at.a += C::kABytes * R;
  MS_UNROLL(4)
  for (int p = 0; p < P; ++p) at.b[p] += C::kBBytes * C::kColumns;
}

template <class C, int R, int P>
MS_INLINE void fold_chunk(F16 (&acc)[R][P * C::kVectors], const TileArgs& args, int64_t chunk) {
  for (int t = 0; t < args.num_terms; ++t) {
    const TileTerm& term = args.terms[t];
    const int64_t begin =
        chunk * term.chunk_pairs < term.pairs ? chunk * term.chunk_pairs : term.pairs;
    const int64_t end =
        begin + term.chunk_pairs < term.pairs ? begin + term.chunk_pairs : term.pairs;
    PairCursor<P> at;
    at.a = static_cast<const char*>(term.a) + begin * (C::kABytes * R);
    MS_UNROLL(4)
    for (int p = 0; p < P; ++p) {
      at.b[p] = static_cast<const char*>(term.b) + p * term.panel_bytes +
                begin * (C::kBBytes * C::kColumns);
    }
    at.panel_bytes = term.panel_bytes;
    at.ahead = term.ahead == nullptr
                   ? at.b[0] + 4096
                   : static_cast<const char*>(term.ahead) + begin * term.ahead_bytes;
    at.ahead_bytes = term.ahead == nullptr ? C::kBBytes * C::kColumns : term.ahead_bytes;
    if constexpr (C::kPairs) {
      // Fewer mispredicted ends: 2 % at chunks of 72 pairs, 5 % without chunks at 96. The other
      // tiles have no registers to spare for it: a quarter slower on AVX2.
      MS_UNROLL(4)
      for (int64_t pair = begin; pair < end; ++pair) fold_next<C, R, P>(acc, at);
    } else {
      for (int64_t pair = begin; pair < end; ++pair) fold_next<C, R, P>(acc, at);
    }
  }
}

/// Row `i` of a finished tile, rounded.
template <class C, int V>
MS_INLINE void store_row(const F16 (&acc)[V], void* y, int64_t offset) {
  if constexpr (C::kF32) {
    MS_UNROLL(8)
    for (int v = 0; v < V; ++v) store(static_cast<float*>(y) + offset + 16 * v, acc[v]);
  } else if constexpr (V % 2 == 0) {
    MS_UNROLL(8)
    for (int v = 0; v < V; v += 2) {
      store_bf16_pair(static_cast<uint16_t*>(y) + offset + 16 * v, acc[v], acc[v + 1]);
    }
  } else {
    MS_UNROLL(8)
    for (int v = 0; v < V; ++v) store_bf16(static_cast<uint16_t*>(y) + offset + 16 * v, acc[v]);
  }
}

template <class C, int R, int P>
void tile(const TileArgs& args) {
  constexpr int V = P * C::kVectors;
  constexpr int kLevel = R * V * 16;  // floats; level l: the sum of 2^l chunks
  alignas(64) float own[3 * kLevel];
  float* waiting = args.waiting == nullptr ? own : args.waiting;
  F16 acc[R][V];
  for (int chunk = args.chunk_begin;; ++chunk) {
    MS_UNROLL(16)
    for (int i = 0; i < R; ++i) {
      MS_UNROLL(8)
      for (int v = 0; v < V; ++v) {
        acc[i][v] = args.load_c ? load(args.c + i * args.c_stride + 16 * v) : zero();
      }
    }
    fold_chunk<C, R, P>(acc, args, chunk);
    int level = 0;
    for (; (chunk >> level) & 1; ++level) {
      MS_UNROLL(16)
      for (int i = 0; i < R; ++i) {
        MS_UNROLL(8)
        for (int v = 0; v < V; ++v) {
          acc[i][v] = add(load(waiting + level * kLevel + (i * V + v) * 16), acc[i][v]);
        }
      }
    }
    if (chunk + 1 == args.num_chunks) break;
    MS_UNROLL(16)
    for (int i = 0; i < R; ++i) {
      MS_UNROLL(8)
      for (int v = 0; v < V; ++v) store(waiting + level * kLevel + (i * V + v) * 16, acc[i][v]);
    }
    if (chunk + 1 == args.chunk_end) return;
  }
  MS_UNROLL(16)
  for (int i = 0; i < R; ++i) {
    MS_UNROLL(8)
    for (int v = 0; v < V; ++v) acc[i][v] = add(acc[i][v], zero());  // rule 3
  }
  if (args.y != nullptr) {
    MS_UNROLL(16)
    for (int i = 0; i < R; ++i) store_row<C, V>(acc[i], args.y, i * args.y_stride);
    return;
  }
  MS_UNROLL(16)
  for (int i = 0; i < R; ++i) {
    MS_UNROLL(8)
    for (int v = 0; v < V; ++v) store(args.c + i * args.c_stride + 16 * v, acc[i][v]);
  }
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

// Attention backward for one task: a whole sequence and one query head.
//
// The one idea (docs/exactness.md, rule 8): for each block of 64 keys, query blocks go by in
// increasing position. With P = e^(s - lse), D = sum(do * o) and dS = P (dP - D), times the
// slope of the cap if s is capped, both rounded to the compute dtype before their products: dV and
// dK fold over query rows (pairs aligned to position, a new fold every 2,048 rows, the folds added
// in order), dQ folds over keys. All five products of a block pair are 64 x 64 x c and run from
// caches. Scores are recomputed; probabilities are never kept for the whole sequence.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

template <class M>
struct BackwardScratch {
  using Column = typename ColumnLeft<M>::Type;
  float* dq;     // (rows, padded)
  float* delta;  // D per row
  typename M::Lane* keys_across;
  typename M::Lane* values_across;
  typename M::Lane* keys_along;
  typename M::Left* q;    // (kBlock, padded)
  typename M::Left* d_o;  // (kBlock, padded)
  typename M::Lane* q_along;
  typename M::Lane* do_along;
  Column* p;                  // (kBlock, kBlock), pairs along rows
  Column* ds;                 // the same
  typename M::Left* ds_rows;  // (kBlock, kBlock), pairs along keys
  float* dk;                  // (kBlock, padded): the fold of this run of query rows
  float* dv;
  size_t bytes;

  BackwardScratch(void* base, int64_t rows, int64_t width) {
    Carver carver(base);
    const int64_t padded = align_up(width, 16);
    dq = carver.take<float>(rows * padded);
    delta = carver.take<float>(align_up(rows, 16));
    const int64_t across = kBlock * num_steps<M>(width);
    const int64_t along = kBlock / M::kStep * padded;
    keys_across = carver.take<typename M::Lane>(across);
    values_across = carver.take<typename M::Lane>(across);
    keys_along = carver.take<typename M::Lane>(along);
    q = carver.take<typename M::Left>(kBlock * padded);
    d_o = carver.take<typename M::Left>(kBlock * padded);
    q_along = carver.take<typename M::Lane>(along);
    do_along = carver.take<typename M::Lane>(along);
    p = carver.take<Column>(kBlock * kBlock);
    ds = carver.take<Column>(kBlock * kBlock);
    ds_rows = carver.take<typename M::Left>(kBlock * kBlock);
    dk = carver.take<float>(kBlock * padded);
    dv = carver.take<float>(kBlock * padded);
    bytes = carver.used();
  }
};

/// Rounds rows `row` (even) and row + 1 of a group of 16 keys into a column operand.
template <class M>
MS_INLINE void store_columns(typename ColumnLeft<M>::Type* out, int row, int g, F16 even, F16 odd) {
#if defined(MS_PAIR_LEFT)
  if constexpr (M::kStep == 2) {
    store_pairs(out + row / 2 * kBlock + 16 * g, pack_pairs(even, odd));
    return;
  }
#endif
  if constexpr (sizeof(typename M::Left) == sizeof(*out)) {
    M::store_left(out + row * kBlock + 16 * g, even);
    M::store_left(out + (row + 1) * kBlock + 16 * g, odd);
  }
}

/// Raw products of up to 6 query rows with one key block.
struct RawTile {
  alignas(64) float s[kTileRows * kBlock];
  alignas(64) float dp[kTileRows * kBlock];
  KeyRange ranges[kTileRows];
  float lse[kTileRows];
  float delta[kTileRows];
  int first, last;                              // groups of 16 keys that were computed
  alignas(64) float slope[kTileRows * kBlock];  // of the cap on s, if there is one
};

struct ProbabilityAndGrad {
  F16 p, ds;
};

template <bool kCapped>
MS_INLINE ProbabilityAndGrad grad_of(const RawTile& raw, int r, int g, float scale) {
  if (g < raw.first || g >= raw.last) return {zero(), zero()};
  const F16 s = mul(add(load(raw.s + r * kBlock + 16 * g), zero()), broadcast(scale));
  F16 p = exp_low(sub(s, broadcast(raw.lse[r])));
  const F16 dp = add(load(raw.dp + r * kBlock + 16 * g), zero());
  F16 ds = mul(p, sub(dp, broadcast(raw.delta[r])));
  if constexpr (kCapped) ds = mul(ds, load(raw.slope + r * kBlock + 16 * g));
  if (raw.ranges[r].low > 16 * g || raw.ranges[r].high < 16 * g + 16) {
    const M16 seen = range_mask(raw.ranges[r], g);
    p = select(seen, p, zero());
    ds = select(seen, ds, zero());
  }
  return {p, ds};
}

/// Fills rows [row, row + count) of P and dS (an odd count completed by a zero row).
template <class M, bool kCapped>
MS_INLINE void store_tile(const BackwardScratch<M>& s, const RawTile& raw, int row, int count,
                          float scale) {
  for (int r = 0; r < count; r += 2) {
    for (int g = 0; g < kBlock / 16; ++g) {
      const ProbabilityAndGrad even = grad_of<kCapped>(raw, r, g, scale);
      ProbabilityAndGrad odd = {zero(), zero()};
      if (r + 1 < count) odd = grad_of<kCapped>(raw, r + 1, g, scale);
      store_columns<M>(s.p, row + r, g, even.p, odd.p);
      store_columns<M>(s.ds, row + r, g, even.ds, odd.ds);
      M::store_left(s.ds_rows + (row + r) * kBlock + 16 * g, even.ds);
      M::store_left(s.ds_rows + (row + r + 1) * kBlock + 16 * g, odd.ds);
    }
  }
}

/// The same of capped scores; out of line, as cap_scores.
template <class M>
[[gnu::noinline]] void store_capped_tile(const AttentionGradTask& t, const BackwardScratch<M>& s,
                                         RawTile& raw, int row, int count) {
  cap_scores(raw.s, count, raw.first, raw.last, t.scale, t.softcap, raw.slope);
  store_tile<M, true>(s, raw, row, count, 1.0f);
}

/// Scores, their gradients and dQ of one pair of blocks.
template <class M>
void backward_rows(const AttentionGradTask& t, const BackwardScratch<M>& s, int64_t query, int rows,
                   int64_t key) {
  const ptrdiff_t padded = align_up(t.width, 16);
  const int steps = num_steps<M>(t.width);
  RawTile raw;
  for (int row = 0; row < rows; row += kTileRows) {
    const int count = rows - row < kTileRows ? rows - row : kTileRows;
    int low = kBlock;
    int high = 0;
    for (int r = 0; r < count; ++r) {
      const int64_t position = query + row + r;
      raw.ranges[r] = visible_keys(position, key, t.window);
      raw.lse[r] = t.lse[position * t.lse_stride];
      raw.delta[r] = s.delta[position];
      if (raw.ranges[r].low == raw.ranges[r].high) continue;
      low = raw.ranges[r].low < low ? raw.ranges[r].low : low;
      high = raw.ranges[r].high > high ? raw.ranges[r].high : high;
    }
    const bool empty = low >= high;
    raw.first = empty ? 0 : low / 16;
    raw.last = empty ? 0 : (high + 15) / 16;
    if (!empty) {
      const ptrdiff_t panel = 16 * steps;
      const int groups = raw.last - raw.first;
      const Product<M, typename M::Left> scores{s.q + row * padded,
                                                padded,
                                                s.keys_across + raw.first * panel,
                                                panel,
                                                0,
                                                steps,
                                                raw.s + raw.first * 16,
                                                kBlock,
                                                nullptr};
      fold_rows<M, Start::kZero, Left::kRows>(scores, count, groups);
      const Product<M, typename M::Left> grads{s.d_o + row * padded,
                                               padded,
                                               s.values_across + raw.first * panel,
                                               panel,
                                               0,
                                               steps,
                                               raw.dp + raw.first * 16,
                                               kBlock,
                                               nullptr};
      fold_rows<M, Start::kZero, Left::kRows>(grads, count, groups);
    }
    if (t.softcap > 0.0f) {
      store_capped_tile<M>(t, s, raw, row, count);
    } else {
      store_tile<M, false>(s, raw, row, count, t.scale);
    }
    if (empty) continue;
    const Product<M, typename M::Left> dq{
        s.ds_rows + row * kBlock,      kBlock,         s.keys_along,
        kBlock / M::kStep * 16,        low / M::kStep, num_steps<M>(high),
        s.dq + (query + row) * padded, padded,         nullptr};
    fold_rows<M, Start::kLoad, Left::kRows>(dq, count, static_cast<int>(padded / 16));
  }
}

/// Folds one query block into dV and dK of one key block. `diagonal`: query row i sees keys up to i
/// only, so the fold of key m starts at the step of row m.
template <class M>
void backward_columns(const BackwardScratch<M>& s, int64_t width, int rows, int keys,
                      bool diagonal) {
  const ptrdiff_t padded = align_up(width, 16);
  const int panels = static_cast<int>(padded / 16);
  constexpr ptrdiff_t kPanel = kBlock / M::kStep * 16;
  using Column = typename ColumnLeft<M>::Type;
  for (int key = 0; key < keys; key += kTileRows) {
    const int count = keys - key < kTileRows ? keys - key : kTileRows;
    const int begin = diagonal ? key / M::kStep : 0;
    const Product<M, Column> dv{
        s.p + key,           0,      s.do_along, kPanel, begin, num_steps<M>(rows),
        s.dv + key * padded, padded, nullptr};
    fold_rows<M, Start::kLoad, Left::kColumns>(dv, count, panels);
    const Product<M, Column> dk{
        s.ds + key,          0,      s.q_along, kPanel, begin, num_steps<M>(rows),
        s.dk + key * padded, padded, nullptr};
    fold_rows<M, Start::kLoad, Left::kColumns>(dk, count, panels);
  }
}

/// total += part (+0), part = 0.
MS_INLINE void close_fold(float* part, float* total, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    store(total + i, add(load(total + i), add(load(part + i), zero())));
    store(part + i, zero());
  }
}

MS_INLINE void clear(float* p, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) store(p + i, zero());
}

/// D = sum(do * o): 16 lanes, then their tree.
template <class M>
void fill_delta(const AttentionGradTask& t, float* delta) {
  for (int64_t row = 0; row < t.num_rows; ++row) {
    const auto* o = M::in(t.o) + row * t.q_stride;
    const auto* d_o = M::in(t.d_o) + row * t.q_stride;
    F16 total = zero();
    for (int64_t column = 0; column < t.width; column += 16) {
      const int n = t.width - column < 16 ? static_cast<int>(t.width - column) : 16;
      total = fma(M::load_n(d_o + column, n), M::load_n(o + column, n), total);
    }
    delta[row] = sum(total);
  }
}

template <class M>
void backward_key_block(const AttentionGradTask& t, const BackwardScratch<M>& s, int64_t key) {
  const int64_t padded = align_up(t.width, 16);
  const int keys = t.num_rows - key < kBlock ? static_cast<int>(t.num_rows - key) : kBlock;
  const auto* k = M::in(t.k) + key * t.kv_stride;
  const auto* v = M::in(t.v) + key * t.kv_stride;
  pack_across<M>(k, t.kv_stride, keys, t.width, s.keys_across);
  pack_across<M>(v, t.kv_stride, keys, t.width, s.values_across);
  pack_along<M>(k, t.kv_stride, keys, t.width, s.keys_along);
  clear(s.dk, kBlock * padded);
  clear(s.dv, kBlock * padded);
  clear(t.dk + key * padded, keys * padded);
  clear(t.dv + key * padded, keys * padded);
  for (int64_t query = key; query < t.num_rows; query += kBlock) {
    if (t.window > 0 && query - (key + keys - 1) >= t.window) break;
    if (query > key && query % kSegmentKeys == 0) {
      close_fold(s.dk, t.dk + key * padded, keys * padded);
      close_fold(s.dv, t.dv + key * padded, keys * padded);
    }
    const int rows = t.num_rows - query < kBlock ? static_cast<int>(t.num_rows - query) : kBlock;
    const auto* q = M::in(t.q) + query * t.q_stride;
    const auto* d_o = M::in(t.d_o) + query * t.q_stride;
    pack_left<M>(q, t.q_stride, rows, t.width, s.q, padded);
    pack_left<M>(d_o, t.q_stride, rows, t.width, s.d_o, padded);
    pack_along<M>(q, t.q_stride, rows, t.width, s.q_along);
    pack_along<M>(d_o, t.q_stride, rows, t.width, s.do_along);
    backward_rows<M>(t, s, query, rows, key);
    backward_columns<M>(s, t.width, rows, keys, query == key);
  }
  close_fold(s.dk, t.dk + key * padded, keys * padded);
  close_fold(s.dv, t.dv + key * padded, keys * padded);
}

template <class M>
void attention_grad_rows(const AttentionGradTask& t) {
  const int64_t padded = align_up(t.width, 16);
  const BackwardScratch<M> s(t.scratch, t.num_rows, t.width);
  clear(s.dq, t.num_rows * padded);
  fill_delta<M>(t, s.delta);
  for (int64_t key = 0; key < t.num_rows; key += kBlock) backward_key_block<M>(t, s, key);
  const F16 scale = broadcast(t.scale);
  for (int64_t row = 0; row < t.num_rows; ++row) {
    auto* out = M::out(t.dq) + row * t.q_stride;
    for (int64_t column = 0; column < t.width; column += 16) {
      const int n = t.width - column < 16 ? static_cast<int>(t.width - column) : 16;
      M::store_n(out + column, mul(add(load(s.dq + row * padded + column), zero()), scale), n);
    }
  }
}

template <class M>
size_t attention_grad_scratch_bytes(int64_t num_rows, int64_t width) {
  return BackwardScratch<M>(nullptr, num_rows, width).bytes;
}

/// The heads of a group: a binary counter over heads in order, (h0 + h1) + h2 for three.
MS_INLINE F16 sum_heads(const float* part, int64_t part_stride, int64_t group) {
  F16 waiting[8];  // levels: up to 255 heads
  int64_t head = 0;
  F16 total = load(part);
  for (;;) {
    int level = 0;
    for (; ((head >> level) & 1) != 0; ++level) total = add(waiting[level], total);
    if (++head == group) {
      for (int above = level + 1; (head - 1) >> above != 0; ++above) {
        if (((head - 1) >> above & 1) != 0) total = add(waiting[above], total);
      }
      return add(total, zero());
    }
    waiting[level] = total;
    total = load(part + head * part_stride);
  }
}

template <class M>
void attention_grad_combine(int64_t num_rows, int64_t width, int64_t group, float scale,
                            const float* dk_parts, const float* dv_parts, int64_t part_stride,
                            void* dk, void* dv, int64_t kv_stride) {
  const int64_t padded = align_up(width, 16);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t column = 0; column < width; column += 16) {
      const int n = width - column < 16 ? static_cast<int>(width - column) : 16;
      const int64_t at = row * padded + column;
      const int64_t to = row * kv_stride + column;
      const F16 k = mul(sum_heads(dk_parts + at, part_stride, group), broadcast(scale));
      M::store_n(M::out(dk) + to, k, n);
      M::store_n(M::out(dv) + to, sum_heads(dv_parts + at, part_stride, group), n);
    }
  }
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

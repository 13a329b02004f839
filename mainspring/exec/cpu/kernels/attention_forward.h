// Attention forward for one task: a few query rows of one sequence and one group of query heads.
//
// The one idea (docs/exactness.md, rule 7): keys are visited in blocks of 64 at absolute positions
// with an online softmax; every 2,048 keys the state (maximum, sum, weighted values) is closed as a
// partial, and partials merge like a binary counter. A masked key has probability +0 and an empty
// partial merges as the identity, so which rows share a task, and which wholly masked blocks are
// skipped, changes no bit. Rows of a task are (query row, head of the group), heads fastest: they
// share each packed key block.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

inline constexpr int64_t kSegmentKeys = 2048;
/// Levels of the counter: enough for 2^10 segments, two million positions.
inline constexpr int kMergeLevels = 10;

MS_INLINE int64_t align_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Cuts a task's scratch into aligned arrays; with a null base it only counts.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(int64_t n) {
    char* p = base_ == nullptr ? nullptr : base_ + used_;
    used_ += align_up(n * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(p);
  }
  size_t used() const { return static_cast<size_t>(used_); }

 private:
  char* base_;
  int64_t used_ = 0;
};

/// One partial softmax of every row: maximum, sum of exponentials, weighted values (rows, padded
/// width).
struct SoftmaxState {
  float* max;
  float* sum;
  float* values;
};

template <class M>
struct ForwardScratch {
  typename M::Left* q;
  typename M::Lane* packed_keys;    // pack_across
  typename M::Lane* packed_values;  // pack_along
  // The block's, here or in its page.
  const typename M::Lane* keys = nullptr;
  const typename M::Lane* values = nullptr;
  SoftmaxState state;
  SoftmaxState stack[kMergeLevels];
  size_t bytes;

  ForwardScratch(void* base, int64_t rows, int64_t width) {
    Carver carver(base);
    const int64_t padded = align_up(width, 16);
    const int64_t padded_rows = align_up(rows, 16);
    q = carver.take<typename M::Left>(rows * padded);
    packed_keys = carver.take<typename M::Lane>(kBlock * num_steps<M>(width));
    packed_values = carver.take<typename M::Lane>(kBlock / M::kStep * padded);
    state = take_state(carver, padded_rows, padded);
    for (SoftmaxState& level : stack) level = take_state(carver, padded_rows, padded);
    bytes = carver.used();
  }

  static SoftmaxState take_state(Carver& carver, int64_t rows, int64_t padded) {
    SoftmaxState s;
    s.max = carver.take<float>(rows);
    s.sum = carver.take<float>(rows);
    s.values = carver.take<float>(rows * padded);
    return s;
  }
};

/// Keys [low, high) of the block at `start` that a query at `position` sees.
struct KeyRange {
  int low, high;
};
MS_INLINE KeyRange visible_keys(int64_t position, int64_t start, int64_t window) {
  int64_t low = window > 0 ? position - window + 1 - start : 0;
  int64_t high = position + 1 - start;
  low = low < 0 ? 0 : low;
  high = high > kBlock ? kBlock : high;
  if (high < 0) high = 0;
  if (low > high) low = high;
  return {static_cast<int>(low), static_cast<int>(high)};
}

MS_INLINE int clamp_lanes(int n) { return n < 0 ? 0 : n > 16 ? 16 : n; }

/// Lanes of column group `g` inside the range.
MS_INLINE M16 range_mask(KeyRange range, int g) {
  const M16 below_high = first_n(clamp_lanes(range.high - 16 * g));
  return mask_and(below_high, mask_not(first_n(clamp_lanes(range.low - 16 * g))));
}

/// e^(old - now) for a maximum that may still be minus infinity (no key seen): 0 then.
MS_INLINE F16 finite_max(F16 max) {
  return select(eq(max, from_bits(iset(static_cast<int32_t>(0xff800000u)))), zero(), max);
}

/// Raw scores of groups [first, last) become cap tanh(raw scale / cap); `slope`, if any, its
/// derivative 1 - tanh^2. Out of line: most models have no cap, and their loops should stay small.
[[gnu::noinline]] inline void cap_scores(float* raw, int rows, int first, int last, float scale,
                                         float cap, float* slope) {
  const F16 factor = broadcast(scale / cap);
  for (int r = 0; r < rows; ++r) {
    for (int g = first; g < last; ++g) {
      const int at = r * kBlock + 16 * g;
      const F16 t = tanh(mul(add(load(raw + at), zero()), factor));
      store(raw + at, mul(t, broadcast(cap)));
      if (slope != nullptr) store(slope + at, fnma(t, t, broadcast(1.0f)));
    }
  }
}

/// One softmax step of up to 6 rows over one block's raw scores: updates maxima and sums, leaves
/// the rounded probabilities of groups [first, last) in p and each row's rescaling factor in
/// factors.
template <class M>
MS_INLINE void softmax_step(const float* raw, const KeyRange* ranges, int rows, int first, int last,
                            float scale, float* max, float* sum_out, typename M::Left* p,
                            float* factors) {
  const F16 minus_infinity = from_bits(iset(static_cast<int32_t>(0xff800000u)));
  alignas(64) float scores[kTileRows * kBlock];
  alignas(64) float old_max[16] = {};
  alignas(64) float new_max[16] = {};
  for (int r = 0; r < rows; ++r) {
    F16 top = minus_infinity;
    for (int g = first; g < last; ++g) {
      F16 x = mul(add(load(raw + r * kBlock + 16 * g), zero()), broadcast(scale));
      if (ranges[r].low > 16 * g || ranges[r].high < 16 * g + 16) {
        x = select(range_mask(ranges[r], g), x, minus_infinity);
      }
      store(scores + r * kBlock + 16 * g, x);
      top = mainspring::cpu::MS_ISA_NAMESPACE::max(top, x);
    }
    const float block_max = max_lane(top);
    old_max[r] = max[r];
    new_max[r] = block_max > max[r] ? block_max : max[r];
    max[r] = new_max[r];
  }
  const F16 base = finite_max(load(new_max));
  store(new_max, base);
  alignas(64) float rescale[16];
  store(rescale, exp_low(sub(load(old_max), base)));
  for (int r = 0; r < rows; ++r) {
    F16 e[4] = {zero(), zero(), zero(), zero()};
    for (int g = first; g < last; ++g) {
      e[g] = exp_low(sub(load(scores + r * kBlock + 16 * g), broadcast(new_max[r])));
      M::store_left(p + r * kBlock + 16 * g, e[g]);
    }
    const float total = sum(add(add(e[0], e[1]), add(e[2], e[3])));
    factors[r] = rescale[r];
    sum_out[r] = sum_out[r] * rescale[r] + total;
  }
}

/// Folds one packed key block into the state of every row.
template <class M>
void attention_block(const AttentionTask& t, const ForwardScratch<M>& s, int64_t start) {
  const int rows = static_cast<int>(t.num_rows * t.group);
  const ptrdiff_t padded = align_up(t.width, 16);
  const int steps = num_steps<M>(t.width);
  alignas(64) float raw[kTileRows * kBlock];
  alignas(64) typename M::Left p[kTileRows * kBlock];
  float factors[kTileRows];
  KeyRange ranges[kTileRows];
  for (int row = 0; row < rows; row += kTileRows) {
    const int count = rows - row < kTileRows ? rows - row : kTileRows;
    int low = kBlock;
    int high = 0;
    for (int r = 0; r < count; ++r) {
      ranges[r] = visible_keys(t.position + (row + r) / t.group, start, t.window);
      if (ranges[r].low == ranges[r].high) continue;
      low = ranges[r].low < low ? ranges[r].low : low;
      high = ranges[r].high > high ? ranges[r].high : high;
    }
    if (low >= high) continue;  // masked for all: a step of factor 1 and probabilities +0
    const int first = low / 16;
    const int last = (high + 15) / 16;
    const Product<M, typename M::Left> scores{
        s.q + row * padded, padded, s.keys + first * 16 * steps,
        16 * steps,         0,      steps,
        raw + first * 16,   kBlock, nullptr};
    fold_rows<M, Start::kZero, Left::kRows>(scores, count, last - first);
    const bool is_capped = t.softcap > 0.0f;
    if (is_capped) cap_scores(raw, count, first, last, t.scale, t.softcap, nullptr);
    softmax_step<M>(raw, ranges, count, first, last, is_capped ? 1.0f : t.scale, s.state.max + row,
                    s.state.sum + row, p, factors);
    const Product<M, typename M::Left> values{p,
                                              kBlock,
                                              s.values,
                                              kBlock / M::kStep * 16,
                                              low / M::kStep,
                                              num_steps<M>(high),
                                              s.state.values + row * padded,
                                              padded,
                                              factors};
    fold_rows<M, Start::kScale, Left::kRows>(values, count, static_cast<int>(padded / 16));
  }
}

/// right = merge(left, right), each row by itself; an empty side leaves the other's bits.
MS_INLINE void merge_states(const SoftmaxState& left, const SoftmaxState& right, int rows,
                            int64_t padded) {
  alignas(64) float left_weight[16];
  alignas(64) float right_weight[16];
  for (int row = 0; row < rows; row += 16) {
    const F16 a = load(left.max + row);
    const F16 b = load(right.max + row);
    const F16 top = max(a, b);
    const F16 base = finite_max(top);
    const F16 wa = exp_low(sub(a, base));
    const F16 wb = exp_low(sub(b, base));
    store(left_weight, wa);
    store(right_weight, wb);
    store(right.max + row, top);
    store(right.sum + row, fma(load(left.sum + row), wa, mul(load(right.sum + row), wb)));
    for (int r = row; r < rows && r < row + 16; ++r) {
      const F16 fa = broadcast(left_weight[r - row]);
      const F16 fb = broadcast(right_weight[r - row]);
      for (int64_t column = 0; column < padded; column += 16) {
        float* out = right.values + r * padded + column;
        store(out, fma(load(left.values + r * padded + column), fa, mul(load(out), fb)));
      }
    }
  }
}

MS_INLINE void clear_state(const SoftmaxState& s, int rows, int64_t padded) {
  const F16 minus_infinity = from_bits(iset(static_cast<int32_t>(0xff800000u)));
  for (int row = 0; row < rows; row += 16) {
    store(s.max + row, minus_infinity);
    store(s.sum + row, zero());
  }
  for (int64_t i = 0; i < rows * padded; i += 16) store(s.values + i, zero());
}

/// o = (values + 0) / sum and lse = max + log(sum).
template <class M>
void write_rows(const AttentionTask& t, const SoftmaxState& s) {
  const int rows = static_cast<int>(t.num_rows * t.group);
  const int64_t padded = align_up(t.width, 16);
  alignas(64) float lse[16];
  for (int row = 0; row < rows; ++row) {
    const int64_t query = row / t.group;
    const int64_t head = row % t.group;
    if (row % 16 == 0) store(lse, add(load(s.max + row), log(load(s.sum + row))));
    if (t.lse != nullptr) t.lse[query * t.lse_stride + head] = lse[row % 16];
    auto* out = M::out(t.o) + query * t.q_stride + head * t.width;
    const F16 total = broadcast(s.sum[row]);
    for (int64_t column = 0; column < t.width; column += 16) {
      const int64_t left = t.width - column;
      const F16 y = div(add(load(s.values + row * padded + column), zero()), total);
      M::store_n(out + column, y, left < 16 ? static_cast<int>(left) : 16);
    }
  }
}

/// Points the scratch at a block of keys and values, packed here unless its page has them packed.
template <class M>
MS_INLINE void take_block(const AttentionTask& t, int64_t block, int keys, ForwardScratch<M>& s) {
  if (t.pages != nullptr) {
    const int64_t page = t.pages[block] * t.page_elements;
    s.keys = reinterpret_cast<const typename M::Lane*>(M::in(t.k) + page);
    s.values = reinterpret_cast<const typename M::Lane*>(M::in(t.v) + page);
    return;
  }
  const int64_t row = block * kBlock * t.kv_stride;
  pack_across<M>(M::in(t.k) + row, t.kv_stride, keys, t.width, s.packed_keys);
  pack_along<M>(M::in(t.v) + row, t.kv_stride, keys, t.width, s.packed_values);
  s.keys = s.packed_keys;
  s.values = s.packed_values;
}

template <class M>
void attention_rows(const AttentionTask& t) {
  const int rows = static_cast<int>(t.num_rows * t.group);
  const int64_t padded = align_up(t.width, 16);
  ForwardScratch<M> s(t.scratch, rows, t.width);
  for (int64_t i = 0; i < t.num_rows; ++i) {
    pack_left<M>(M::in(t.q) + i * t.q_stride, t.width, static_cast<int>(t.group), t.width,
                 s.q + i * t.group * padded, padded);
  }
  const int64_t num_keys = t.position + t.num_rows;
  const int64_t first_key = t.window > 0 && t.position >= t.window ? t.position - t.window + 1 : 0;
  const int64_t last_segment = (num_keys - 1) / kSegmentKeys;
  bool used[kMergeLevels] = {};
  for (int64_t segment = first_key / kSegmentKeys; segment <= last_segment; ++segment) {
    clear_state(s.state, rows, padded);
    const int64_t begin = segment * kSegmentKeys;
    const int64_t end = begin + kSegmentKeys < num_keys ? begin + kSegmentKeys : num_keys;
    for (int64_t start = begin; start < end; start += kBlock) {
      if (start + kBlock <= first_key) continue;
      const int keys = end - start < kBlock ? static_cast<int>(end - start) : kBlock;
      take_block<M>(t, start / kBlock, keys, s);
      attention_block<M>(t, s, start);
    }
    int level = 0;
    for (; segment < last_segment ? ((segment >> level) & 1) != 0 : level < kMergeLevels; ++level) {
      if (used[level]) merge_states(s.stack[level], s.state, rows, padded);
      used[level] = false;
    }
    if (segment == last_segment) break;
    const SoftmaxState& keep = s.stack[level];
    used[level] = true;
    for (int row = 0; row < rows; ++row) {
      keep.max[row] = s.state.max[row];
      keep.sum[row] = s.state.sum[row];
    }
    for (int64_t i = 0; i < rows * padded; i += 16)
      store(keep.values + i, load(s.state.values + i));
  }
  write_rows<M>(t, s.state);
}

template <class M>
size_t attention_scratch_bytes(int64_t rows_times_group, int64_t width) {
  return ForwardScratch<M>(nullptr, rows_times_group, width).bytes;
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

// Row statistics over the vocabulary, the logit gradient and the optimizer's updates, for one path.
//
// The one idea (docs/exactness.md, rule 14): a row of logits is cut into 8 contiguous segments at
// multiples of 16; each keeps 16 lanes from its first element on and ends in the fixed tree of
// `sum`; the segments' sums combine as ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)). The maximum is exact,
// so its order is free.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

inline constexpr int kVocabularySegments = 8;

inline RowStatsValues row_stats(const float* x, int64_t n) {
  F16 top = from_bits(iset(static_cast<int32_t>(0xff800000u)));
  const F16 lowest = top;
  each_vector(0, n, [&](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 v = load_n(x + i, count);
    top = max(top, count == 16 ? v : select(first_n(count), v, lowest));
  });
  const F16 row_max = broadcast(max_lane(top));
  const int64_t length = align_up((n + kVocabularySegments - 1) / kVocabularySegments, 16);
  float sums[kVocabularySegments];
  for (int s = 0; s < kVocabularySegments; ++s) {
    const int64_t begin = s * length < n ? s * length : n;
    const int64_t end = begin + length < n ? begin + length : n;
    F16 total = zero();
    each_vector(begin, end, [&](int64_t i, int count) MS_INLINE_LAMBDA {
      const F16 e = exp_low(sub(load_n(x + i, count), row_max));
      total = add(total, count == 16 ? e : select(first_n(count), e, zero()));
    });
    sums[s] = sum(total);
  }
  const float total =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  alignas(64) float out[32];
  store(out, row_max);
  store(out + 16, add(row_max, log(broadcast(total))));
  return {out[0], total, out[16]};
}

inline void row_exp(const float* x, int64_t n, float max_value, float* y) {
  const F16 top = broadcast(max_value);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(y + i, exp_low(sub(load_n(x + i, count), top)), count);
  });
}

inline void exp_values(const float* x, int64_t n, float* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(y + i, exp(load_n(x + i, count)), count);
  });
}

inline void log_values(const float* x, int64_t n, float* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(y + i, log(load_n(x + i, count)), count);
  });
}

/// y = cap tanh(x (1 / cap)).
inline void soft_cap_values(const float* x, int64_t n, float cap, float* y) {
  const F16 factor = broadcast(cap);
  const F16 inverse = broadcast(1.0f / cap);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(y + i, mul(tanh(mul(load_n(x + i, count), inverse)), factor), count);
  });
}

/// What a slice's gradient is made of.
struct LogitGrad {
  float lse;
  float d;    // of the target's log-probability
  float e;    // of lse itself
  float cap;  // of the logits
  int64_t target;
};

/// y = round(d * (onehot - p) + e * p), p = e^(x - lse), on a slice; `target` is relative to it and
/// may lie outside. Of capped logits times the cap's slope there, 1 - (x / cap)^2.
template <class M, bool kCapped, bool kLse>
void logit_grad_slice(int64_t n, const float* x, const LogitGrad& g, void* y) {
  const F16 row_lse = broadcast(g.lse);
  const F16 weight = broadcast(g.d);
  const F16 lse_weight = broadcast(g.e);
  const F16 inverse = broadcast(kCapped ? 1.0f / g.cap : 0.0f);
  const int64_t target = g.target;
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    F16 onehot = zero();
    if (target >= i && target < i + 16) {
      const int lane = static_cast<int>(target - i);
      onehot =
          select(mask_and(first_n(lane + 1), mask_not(first_n(lane))), broadcast(1.0f), zero());
    }
    const F16 logit = load_n(x + i, count);
    const F16 p = exp_low(sub(logit, row_lse));
    F16 dlogit = mul(weight, sub(onehot, p));
    if constexpr (kLse) dlogit = fma(lse_weight, p, dlogit);
    if constexpr (kCapped) {
      const F16 t = mul(logit, inverse);
      dlogit = mul(dlogit, fnma(t, t, broadcast(1.0f)));
    }
    M::store_n(M::out(y) + i, add(dlogit, zero()), count);
  });
}

template <class M>
void logit_grad_values(int64_t n, const float* x, float lse, float d, float cap, int64_t target,
                       void* y) {
  (cap > 0.0f ? logit_grad_slice<M, true, false>
              : logit_grad_slice<M, false, false>)(n, x, {lse, d, 0.0f, cap, target}, y);
}

template <class M>
void logit_lse_grad_values(int64_t n, const float* x, float lse, float d, float e, float cap,
                           int64_t target, void* y) {
  (cap > 0.0f ? logit_grad_slice<M, true, true>
              : logit_grad_slice<M, false, true>)(n, x, {lse, d, e, cap, target}, y);
}

/// torch.optim.AdamW on a slice: decay, moments, then p -= (lr / bias1) * (m / (sqrt(v) / bias2 +
/// eps)).
inline void adamw(int64_t n, const AdamwScalars& s, const float* grad, float* param, float* m,
                  float* v) {
  const F16 scale = broadcast(s.grad_scale);
  const F16 decay = broadcast(1.0f - s.lr * s.weight_decay);
  const F16 rate1 = broadcast(1.0f - s.beta1);
  const F16 beta2 = broadcast(s.beta2);
  const F16 rate2 = broadcast(1.0f - s.beta2);
  const F16 step = broadcast(s.lr / s.bias_correction1);
  const F16 bias2 = broadcast(s.bias_correction2_sqrt);
  const F16 eps = broadcast(s.eps);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 g = mul(load_n(grad + i, count), scale);
    const F16 m_old = load_n(m + i, count);
    const F16 m_new = fma(sub(g, m_old), rate1, m_old);
    const F16 v_new = fma(mul(g, g), rate2, mul(load_n(v + i, count), beta2));
    const F16 denominator = add(div(sqrt(v_new), bias2), eps);
    const F16 p = mul(load_n(param + i, count), decay);
    store_n(m + i, m_new, count);
    store_n(v + i, v_new, count);
    store_n(param + i, fnma(step, div(m_new, denominator), p), count);
  });
}

/// Sum of squares of one block (a row's K-chunk).
inline float sum_of_squares(const float* x, int64_t n) {
  F16 total = zero();
  each_vector(0, n, [&](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 v = load_n(x + i, count);
    total = fma(v, v, total);
  });
  return sum(total);
}

inline void accumulate(int64_t n, const float* x, float* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(y + i, add(load_n(y + i, count), load_n(x + i, count)), count);
  });
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

// The updates of Lion, Adafactor and Muon, for one path.
//
// The one idea: all are elementwise, or sums of squares over one block; how blocks combine is
// decided above (docs/exactness.md, rule 15). AdamW stands in vocabulary_ops.h.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

/// c = m + (1 - beta1)(g - m); p = p (1 - lr wd) - lr sign(c); m += (1 - beta2)(g - m).
inline void lion(int64_t n, const LionScalars& s, const float* grad, float* param, float* m) {
  const F16 scale = broadcast(s.grad_scale);
  const F16 decay = broadcast(1.0f - s.lr * s.weight_decay);
  const F16 rate1 = broadcast(1.0f - s.beta1);
  const F16 rate2 = broadcast(1.0f - s.beta2);
  const F16 up = broadcast(s.lr);
  const F16 down = broadcast(-s.lr);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 m_old = load_n(m + i, count);
    const F16 away = sub(mul(load_n(grad + i, count), scale), m_old);
    const F16 c = fma(away, rate1, m_old);
    const F16 step = select(lt(zero(), c), up, select(lt(c, zero()), down, zero()));
    const F16 p = mul(load_n(param + i, count), decay);
    store_n(m + i, fma(away, rate2, m_old), count);
    store_n(param + i, sub(p, step), count);
  });
}

/// Sum of squares of scale * x over one block.
inline float scaled_squares(const float* x, int64_t n, float scale) {
  const F16 factor = broadcast(scale);
  F16 total = zero();
  each_vector(0, n, [&](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 v = mul(load_n(x + i, count), factor);
    total = fma(v, v, total);
  });
  return sum(total);
}

/// out[i] = fold over `rows` rows in order, from zero, of (scale * x[row][i])^2; n columns.
inline void column_squares(int64_t rows, int64_t stride, int64_t n, float scale, const float* x,
                           float* out) {
  const F16 factor = broadcast(scale);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    F16 total = zero();
    for (int64_t row = 0; row < rows; ++row) {
      const F16 v = mul(load_n(x + row * stride + i, count), factor);
      total = fma(v, v, total);
    }
    store_n(out + i, total, count);
  });
}

/// state += rate (sum / count - state).
inline void blend_mean(int64_t n, float count_of_sum, float rate, const float* sums, float* state) {
  const F16 divisor = broadcast(count_of_sum);
  const F16 weight = broadcast(rate);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 old = load_n(state + i, count);
    const F16 mean = div(load_n(sums + i, count), divisor);
    store_n(state + i, fma(sub(mean, old), weight, old), count);
  });
}

/// g / sqrt(max(row * column / mean, floor)) for 16 elements of one row.
MS_INLINE F16 adafactor_direction(const AdafactorRow& r, const float* grad, const float* column,
                                  int count) {
  const F16 v = div(mul(broadcast(r.row), load_n(column, count)), broadcast(r.mean));
  const F16 g = mul(load_n(grad, count), broadcast(r.grad_scale));
  return div(g, sqrt(max(v, broadcast(r.floor))));
}

inline float adafactor_squares(int64_t n, const AdafactorRow& r, const float* grad,
                               const float* column) {
  F16 total = zero();
  each_vector(0, n, [&](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 u = adafactor_direction(r, grad + i, column + i, count);
    total = fma(u, u, total);
  });
  return sum(total);
}

inline void adafactor_apply(int64_t n, const AdafactorRow& r, float decay, float rate,
                            const float* grad, const float* column, float* param) {
  const F16 keep = broadcast(decay);
  const F16 step = broadcast(rate);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 u = adafactor_direction(r, grad + i, column + i, count);
    store_n(param + i, fnma(step, u, mul(load_n(param + i, count), keep)), count);
  });
}

/// buf += (1 - momentum)(g - buf); u = round(nesterov ? buf + (1 - momentum)(g - buf) : buf).
template <class M>
void muon_momentum(int64_t n, float grad_scale, float momentum, bool nesterov, const float* grad,
                   float* buffer, void* u) {
  const F16 scale = broadcast(grad_scale);
  const F16 rate = broadcast(1.0f - momentum);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 g = mul(mainspring::cpu::MS_ISA_NAMESPACE::load_n(grad + i, count), scale);
    const F16 old = mainspring::cpu::MS_ISA_NAMESPACE::load_n(buffer + i, count);
    const F16 b = fma(sub(g, old), rate, old);
    mainspring::cpu::MS_ISA_NAMESPACE::store_n(buffer + i, b, count);
    M::store_n(M::out(u) + i, nesterov ? fma(sub(g, b), rate, b) : b, count);
  });
}

/// Sum of squares of one block of values.
template <class M>
float squares_of_values(const void* x, int64_t n) {
  F16 total = zero();
  each_vector(0, n, [&](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 v = M::load_n(M::in(x) + i, count);
    total = fma(v, v, total);
  });
  return sum(total);
}

/// x = round(x / divisor).
template <class M>
void divide_values(int64_t n, float divisor, void* x) {
  const F16 by = broadcast(divisor);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    M::store_n(M::out(x) + i, div(M::load_n(M::in(x) + i, count), by), count);
  });
}

/// y = round(alpha * sum + beta * x): what becomes of a product's sums.
template <class M>
void scaled_sum(int64_t n, float alpha, const float* sums, float beta, const void* x, void* y) {
  const F16 a = broadcast(alpha);
  const F16 b = broadcast(beta);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 product = mul(mainspring::cpu::MS_ISA_NAMESPACE::load_n(sums + i, count), a);
    M::store_n(M::out(y) + i, fma(M::load_n(M::in(x) + i, count), b, product), count);
  });
}

/// p = decay * p - rate * u.
template <class M>
void decayed_step(int64_t n, float decay, float rate, const void* u, float* param) {
  const F16 keep = broadcast(decay);
  const F16 step = broadcast(rate);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 p = mul(mainspring::cpu::MS_ISA_NAMESPACE::load_n(param + i, count), keep);
    mainspring::cpu::MS_ISA_NAMESPACE::store_n(
        param + i, fnma(step, M::load_n(M::in(u) + i, count), p), count);
  });
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

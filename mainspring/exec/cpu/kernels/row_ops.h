// Norms, rotary embedding and elementwise operations on rows, for one path.
//
// The one idea: everything is computed in f32 on 16 lanes and rounded once to the compute dtype; a
// reduction over a row keeps 16 lanes from its first element on and ends in the fixed tree of `sum`
// (docs/exactness.md, rule 14). Memory bound except for silu and exp.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

MS_INLINE int lanes_left(int64_t n, int64_t i) { return n - i < 16 ? static_cast<int>(n - i) : 16; }

/// 1 / sqrt(mean(x^2) + eps) of one group.
template <class M>
MS_INLINE float inverse_rms(const typename M::Value* x, int64_t width, float eps) {
  F16 squares = zero();
  for (int64_t i = 0; i < width; i += 16) {
    const F16 v = M::load_n(x + i, lanes_left(width, i));
    squares = fma(v, v, squares);
  }
  const F16 mean = broadcast(sum(squares) / static_cast<float>(width));
  alignas(64) float inv[16];
  store(inv, div(broadcast(1.0f), sqrt(add(mean, broadcast(eps)))));
  return inv[0];
}

template <class M>
void rms_norm_rows(int64_t groups, int64_t width, float eps, const void* x, const void* w,
                   void* y) {
  const auto* weight = M::in(w);
  for (int64_t group = 0; group < groups; ++group) {
    const auto* in = M::in(x) + group * width;
    auto* out = M::out(y) + group * width;
    const F16 inv = broadcast(inverse_rms<M>(in, width, eps));
    for (int64_t i = 0; i < width; i += 16) {
      const int n = lanes_left(width, i);
      M::store_n(out + i, mul(mul(M::load_n(in + i, n), inv), M::load_n(weight + i, n)), n);
    }
  }
}

/// With h = x * inv and g = dy * w: dx = inv * (g - h * (sum(g h) / width)).
template <class M>
void rms_norm_grad_rows(int64_t groups, int64_t width, float eps, const void* x, const void* w,
                        const void* dy, void* dx, float* inv_out) {
  const auto* weight = M::in(w);
  for (int64_t group = 0; group < groups; ++group) {
    const auto* in = M::in(x) + group * width;
    const auto* grad = M::in(dy) + group * width;
    auto* out = M::out(dx) + group * width;
    const float inv_value = inverse_rms<M>(in, width, eps);
    inv_out[group] = inv_value;
    const F16 inv = broadcast(inv_value);
    F16 dots = zero();
    for (int64_t i = 0; i < width; i += 16) {
      const int n = lanes_left(width, i);
      const F16 g = mul(M::load_n(grad + i, n), M::load_n(weight + i, n));
      dots = fma(g, mul(M::load_n(in + i, n), inv), dots);
    }
    const F16 mean = broadcast(sum(dots) / static_cast<float>(width));
    for (int64_t i = 0; i < width; i += 16) {
      const int n = lanes_left(width, i);
      const F16 g = mul(M::load_n(grad + i, n), M::load_n(weight + i, n));
      const F16 h = mul(M::load_n(in + i, n), inv);
      M::store_n(out + i, mul(inv, fnma(h, mean, g)), n);
    }
  }
}

/// Columns [begin, end) of the weight's gradient: one fma per group, in order.
template <class M>
void rms_norm_weight_grad_columns(int64_t groups, int64_t width, int64_t begin, int64_t end,
                                  const void* x, const void* dy, const float* inv, float* dw) {
  for (int64_t i = begin; i < end; i += 16) {
    const int n = lanes_left(end, i);
    F16 acc = mainspring::cpu::MS_ISA_NAMESPACE::load_n(dw + i, n);
    for (int64_t group = 0; group < groups; ++group) {
      const auto* in = M::in(x) + group * width + i;
      const auto* grad = M::in(dy) + group * width + i;
      acc = fma(M::load_n(grad, n), mul(M::load_n(in, n), broadcast(inv[group])), acc);
    }
    mainspring::cpu::MS_ISA_NAMESPACE::store_n(dw + i, add(acc, zero()), n);
  }
}

/// y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin: one product, one fma each; inverse negates the sine.
/// Elements from `rotary` on are copied.
template <class M>
void rope_row(int64_t heads, int64_t c, int64_t rotary, const float* cos_sin, bool inverse,
              const void* x, void* y) {
  const int64_t half = rotary / 2;
  alignas(64) float cosine[128];
  alignas(64) float sine[128];
  for (int64_t i = 0; i < half; ++i) {
    cosine[i] = cos_sin[2 * i];
    sine[i] = inverse ? -cos_sin[2 * i + 1] : cos_sin[2 * i + 1];
  }
  for (int64_t head = 0; head < heads; ++head) {
    const auto* in = M::in(x) + head * c;
    auto* out = M::out(y) + head * c;
    for (int64_t i = 0; i < half; i += 16) {
      const int n = lanes_left(half, i);
      const F16 a = M::load_n(in + i, n);
      const F16 b = M::load_n(in + half + i, n);
      const F16 cos_i = mainspring::cpu::MS_ISA_NAMESPACE::load_n(cosine + i, n);
      const F16 sin_i = mainspring::cpu::MS_ISA_NAMESPACE::load_n(sine + i, n);
      M::store_n(out + i, fnma(b, sin_i, mul(a, cos_i)), n);
      M::store_n(out + half + i, fma(a, sin_i, mul(b, cos_i)), n);
    }
    for (int64_t i = rotary; i < c; i += 16) {
      const int n = lanes_left(c, i);
      M::store_n(out + i, M::load_n(in + i, n), n);
    }
  }
}

/// An inlined loop body is compiled twice, once with n = 16 known.
#define MS_INLINE_LAMBDA __attribute__((always_inline))

/// Calls f(i, n) for each run of up to 16 of the elements [begin, end).
template <class F>
MS_INLINE void each_vector(int64_t begin, int64_t end, F f) {
  int64_t i = begin;
  for (; i + 16 <= end; i += 16) f(i, 16);
  if (i < end) f(i, static_cast<int>(end - i));
}

template <class M>
void silu_mul_values(int64_t n, const void* gate, const void* up, void* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 s = M::round(silu(M::load_n(M::in(gate) + i, count)));
    M::store_n(M::out(y) + i, mul(s, M::load_n(M::in(up) + i, count)), count);
  });
}

template <class M>
void silu_mul_grad_values(int64_t n, const void* gate, const void* up, const void* dy, void* dgate,
                          void* dup) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 g = M::load_n(M::in(gate) + i, count);
    const F16 d = M::load_n(M::in(dy) + i, count);
    const F16 s = M::round(silu(g));
    const F16 ds = M::round(mul(d, M::load_n(M::in(up) + i, count)));
    M::store_n(M::out(dup) + i, mul(d, s), count);
    M::store_n(M::out(dgate) + i, mul(ds, silu_derivative(g)), count);
  });
}

template <class M>
void silu_values(int64_t n, const void* x, void* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    M::store_n(M::out(y) + i, silu(M::load_n(M::in(x) + i, count)), count);
  });
}

template <class M>
void silu_grad_values(int64_t n, const void* x, const void* dy, void* dx) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 derivative = silu_derivative(M::load_n(M::in(x) + i, count));
    M::store_n(M::out(dx) + i, mul(M::load_n(M::in(dy) + i, count), derivative), count);
  });
}

template <class M>
void multiply_values(int64_t n, const void* a, const void* b, void* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 product = mul(M::load_n(M::in(a) + i, count), M::load_n(M::in(b) + i, count));
    M::store_n(M::out(y) + i, product, count);
  });
}

/// Elements [begin, end) of every term, added in order.
template <class M>
void add_many_values(int64_t begin, int64_t end, const void* const* terms, int64_t num_terms,
                     void* y) {
  each_vector(begin, end, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    F16 total = M::load_n(M::in(terms[0]) + i, count);
    for (int64_t t = 1; t < num_terms; ++t) {
      total = add(total, M::load_n(M::in(terms[t]) + i, count));
    }
    M::store_n(M::out(y) + i, add(total, zero()), count);
  });
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

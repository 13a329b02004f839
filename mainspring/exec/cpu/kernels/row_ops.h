// Norms, rotary embedding and elementwise operations on rows, for one path.
//
// The one idea: everything is computed in f32 on 16 lanes and rounded once to the compute dtype; a
// reduction over a row keeps 16 lanes from its first element on and ends in the fixed tree of `sum`
// (docs/exactness.md, rule 14). Memory bound except for silu and exp.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

MS_INLINE int lanes_left(int64_t n, int64_t i) { return n - i < 16 ? static_cast<int>(n - i) : 16; }

/// An inlined loop body is compiled twice, once with n = 16 known.
#define MS_INLINE_LAMBDA __attribute__((always_inline))

/// Calls f(i, n) for each run of up to 16 of the elements [begin, end).
template <class F>
MS_INLINE void each_vector(int64_t begin, int64_t end, F f) {
  int64_t i = begin;
  for (; i + 16 <= end; i += 16) f(i, 16);
  if (i < end) f(i, static_cast<int>(end - i));
}

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

/// Lanes of a norm's weight as it multiplies: w, or 1 + w where it is stored without its one.
template <class M, bool kPlusOne>
MS_INLINE F16 norm_weight(const typename M::Value* w, int n) {
  const F16 v = M::load_n(w, n);
  if constexpr (kPlusOne) return add(broadcast(1.0f), v);
  return v;
}

template <class M, bool kPlusOne>
void rms_norm_groups(int64_t groups, int64_t width, float eps, const void* x, const void* w,
                     void* y) {
  const auto* weight = M::in(w);
  for (int64_t group = 0; group < groups; ++group) {
    const auto* in = M::in(x) + group * width;
    auto* out = M::out(y) + group * width;
    const F16 inv = broadcast(inverse_rms<M>(in, width, eps));
    for (int64_t i = 0; i < width; i += 16) {
      const int n = lanes_left(width, i);
      M::store_n(out + i,
                 mul(mul(M::load_n(in + i, n), inv), norm_weight<M, kPlusOne>(weight + i, n)), n);
    }
  }
}

template <class M>
void rms_norm_rows(int64_t groups, int64_t width, float eps, bool plus_one, const void* x,
                   const void* w, void* y) {
  (plus_one ? rms_norm_groups<M, true> : rms_norm_groups<M, false>)(groups, width, eps, x, w, y);
}

/// With h = x * inv and g = dy * w: dx = inv * (g - h * (sum(g h) / width)).
template <class M, bool kPlusOne>
void rms_norm_grad_groups(int64_t groups, int64_t width, float eps, const void* x, const void* w,
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
      const F16 g = mul(M::load_n(grad + i, n), norm_weight<M, kPlusOne>(weight + i, n));
      dots = fma(g, mul(M::load_n(in + i, n), inv), dots);
    }
    const F16 mean = broadcast(sum(dots) / static_cast<float>(width));
    for (int64_t i = 0; i < width; i += 16) {
      const int n = lanes_left(width, i);
      const F16 g = mul(M::load_n(grad + i, n), norm_weight<M, kPlusOne>(weight + i, n));
      const F16 h = mul(M::load_n(in + i, n), inv);
      M::store_n(out + i, mul(inv, fnma(h, mean, g)), n);
    }
  }
}

template <class M>
void rms_norm_grad_rows(int64_t groups, int64_t width, float eps, bool plus_one, const void* x,
                        const void* w, const void* dy, void* dx, float* inv_out) {
  (plus_one ? rms_norm_grad_groups<M, true> : rms_norm_grad_groups<M, false>)(groups, width, eps, x,
                                                                              w, dy, dx, inv_out);
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

/// Mean and 1 / sqrt(variance + eps) of one row.
struct Moments {
  float mean, inv;
};

template <class M>
MS_INLINE Moments moments_of(const typename M::Value* x, int64_t width, float eps) {
  F16 total = zero();
  each_vector(0, width,
              [&](int64_t i, int n) MS_INLINE_LAMBDA { total = add(total, M::load_n(x + i, n)); });
  const float mean = sum(total) / static_cast<float>(width);
  F16 squares = zero();
  each_vector(0, width, [&](int64_t i, int n) MS_INLINE_LAMBDA {
    F16 v = sub(M::load_n(x + i, n), broadcast(mean));
    if (n < 16) v = select(first_n(n), v, zero());
    squares = fma(v, v, squares);
  });
  const F16 variance = broadcast(sum(squares) / static_cast<float>(width));
  alignas(64) float inv[16];
  store(inv, div(broadcast(1.0f), sqrt(add(variance, broadcast(eps)))));
  return {mean, inv[0]};
}

template <class M>
void layer_norm_rows(int64_t rows, int64_t width, float eps, const void* x, const void* w,
                     const void* b, void* y) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto* in = M::in(x) + row * width;
    auto* out = M::out(y) + row * width;
    const Moments m = moments_of<M>(in, width, eps);
    each_vector(0, width, [=](int64_t i, int n) MS_INLINE_LAMBDA {
      const F16 h = mul(sub(M::load_n(in + i, n), broadcast(m.mean)), broadcast(m.inv));
      M::store_n(out + i, fma(h, M::load_n(M::in(w) + i, n), M::load_n(M::in(b) + i, n)), n);
    });
  }
}

/// With h = (x - mean) inv and g = dy w: dx = inv ((g - sum(g) / width) - h (sum(g h) / width)).
template <class M>
void layer_norm_grad_rows(int64_t rows, int64_t width, float eps, const void* x, const void* w,
                          const void* dy, void* dx, float* mean_out, float* inv_out) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto* in = M::in(x) + row * width;
    const auto* grad = M::in(dy) + row * width;
    auto* out = M::out(dx) + row * width;
    const Moments m = moments_of<M>(in, width, eps);
    mean_out[row] = m.mean;
    inv_out[row] = m.inv;
    const F16 mean = broadcast(m.mean);
    const F16 inv = broadcast(m.inv);
    F16 sums = zero();
    F16 dots = zero();
    each_vector(0, width, [&](int64_t i, int n) MS_INLINE_LAMBDA {
      const F16 g = mul(M::load_n(grad + i, n), M::load_n(M::in(w) + i, n));
      sums = add(sums, g);  // lanes beyond the row have g = 0
      dots = fma(g, mul(sub(M::load_n(in + i, n), mean), inv), dots);
    });
    const F16 mean_g = broadcast(sum(sums) / static_cast<float>(width));
    const F16 mean_gh = broadcast(sum(dots) / static_cast<float>(width));
    each_vector(0, width, [=](int64_t i, int n) MS_INLINE_LAMBDA {
      const F16 g = mul(M::load_n(grad + i, n), M::load_n(M::in(w) + i, n));
      const F16 h = mul(sub(M::load_n(in + i, n), mean), inv);
      M::store_n(out + i, mul(inv, fnma(h, mean_gh, sub(g, mean_g))), n);
    });
  }
}

/// Columns [begin, end) of the weight's gradient: one fma per row, in order.
template <class M>
void layer_norm_weight_grad_columns(int64_t rows, int64_t width, int64_t begin, int64_t end,
                                    const void* x, const void* dy, const float* mean,
                                    const float* inv, float* dw) {
  for (int64_t i = begin; i < end; i += 16) {
    const int n = lanes_left(end, i);
    F16 acc = mainspring::cpu::MS_ISA_NAMESPACE::load_n(dw + i, n);
    for (int64_t row = 0; row < rows; ++row) {
      const F16 h = mul(sub(M::load_n(M::in(x) + row * width + i, n), broadcast(mean[row])),
                        broadcast(inv[row]));
      acc = fma(M::load_n(M::in(dy) + row * width + i, n), h, acc);
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

struct SiluActivation {
  static MS_INLINE F16 value(F16 x) { return silu(x); }
  static MS_INLINE F16 derivative(F16 x) { return silu_derivative(x); }
};

struct GeluActivation {
  static MS_INLINE F16 value(F16 x) { return gelu(x); }
  static MS_INLINE F16 derivative(F16 x) { return gelu_derivative(x); }
};

template <class M, class A>
void gated_values(int64_t n, const void* gate, const void* up, void* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 s = M::round(A::value(M::load_n(M::in(gate) + i, count)));
    M::store_n(M::out(y) + i, mul(s, M::load_n(M::in(up) + i, count)), count);
  });
}

template <class M, class A>
void gated_grad_values(int64_t n, const void* gate, const void* up, const void* dy, void* dgate,
                       void* dup) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 g = M::load_n(M::in(gate) + i, count);
    const F16 d = M::load_n(M::in(dy) + i, count);
    const F16 s = M::round(A::value(g));
    const F16 ds = M::round(mul(d, M::load_n(M::in(up) + i, count)));
    M::store_n(M::out(dup) + i, mul(d, s), count);
    M::store_n(M::out(dgate) + i, mul(ds, A::derivative(g)), count);
  });
}

template <class M, class A>
void activation_values(int64_t n, const void* x, void* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    M::store_n(M::out(y) + i, A::value(M::load_n(M::in(x) + i, count)), count);
  });
}

template <class M, class A>
void activation_grad_values(int64_t n, const void* x, const void* dy, void* dx) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 derivative = A::derivative(M::load_n(M::in(x) + i, count));
    M::store_n(M::out(dx) + i, mul(M::load_n(M::in(dy) + i, count), derivative), count);
  });
}

template <class M, class A>
constexpr ActivationKernels make_activation_kernels() {
  return {&activation_values<M, A>, &activation_grad_values<M, A>, &gated_values<M, A>,
          &gated_grad_values<M, A>};
}

template <class M>
void scale_values(int64_t n, const void* x, float factor, void* y) {
  const F16 f = broadcast(factor);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    M::store_n(M::out(y) + i, mul(M::load_n(M::in(x) + i, count), f), count);
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

// The scalar path's vector: 16 floats and plain loops. The bit oracle; see simd.h for the contract.
// Needs nothing beyond baseline x86-64 (SSE2); fma is the C library's.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

struct F16 {
  float l[16];
};
struct I16 {
  int32_t l[16];
};
struct P16 {
  uint32_t l[16];
};
struct M16 {
  uint32_t bits;
};

#define MS_LANES for (int i = 0; i < 16; ++i)

MS_INLINE uint32_t bits1(float x) { return __builtin_bit_cast(uint32_t, x); }
MS_INLINE float float1(uint32_t u) { return __builtin_bit_cast(float, u); }
MS_INLINE uint16_t to_bf16_1(float x) {
  const uint32_t u = bits1(x);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  if (magnitude < 0x00800000u) return static_cast<uint16_t>((u >> 16) & 0x8000u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
MS_INLINE float from_bf16_1(uint16_t b) { return float1(static_cast<uint32_t>(b) << 16); }
MS_INLINE float max1(float a, float b) {
  return _mm_cvtss_f32(_mm_max_ss(_mm_set_ss(a), _mm_set_ss(b)));
}
MS_INLINE float min1(float a, float b) {
  return _mm_cvtss_f32(_mm_min_ss(_mm_set_ss(a), _mm_set_ss(b)));
}

MS_INLINE F16 load_n(const float* p, int n) {
  F16 r;
  MS_LANES r.l[i] = i < n ? p[i] : 0.0f;
  return r;
}
MS_INLINE F16 load(const float* p) { return load_n(p, 16); }
MS_INLINE void store_n(float* p, F16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.l[i];
}
MS_INLINE void store(float* p, F16 a) { store_n(p, a, 16); }
MS_INLINE F16 load_bf16_n(const uint16_t* p, int n) {
  F16 r;
  MS_LANES r.l[i] = i < n ? from_bf16_1(p[i]) : 0.0f;
  return r;
}
MS_INLINE F16 load_bf16(const uint16_t* p) { return load_bf16_n(p, 16); }
MS_INLINE void store_bf16_n(uint16_t* p, F16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = to_bf16_1(a.l[i]);
}
MS_INLINE void store_bf16(uint16_t* p, F16 a) { store_bf16_n(p, a, 16); }
/// a to p, b behind it.
MS_INLINE void store_bf16_pair(uint16_t* p, F16 a, F16 b) {
  store_bf16(p, a);
  store_bf16(p + 16, b);
}
MS_INLINE F16 round_bf16(F16 a) {
  MS_LANES a.l[i] = from_bf16_1(to_bf16_1(a.l[i]));
  return a;
}

MS_INLINE F16 broadcast(float x) {
  F16 r;
  MS_LANES r.l[i] = x;
  return r;
}
MS_INLINE F16 zero() { return broadcast(0.0f); }
MS_INLINE F16 add(F16 a, F16 b) {
  MS_LANES a.l[i] = a.l[i] + b.l[i];
  return a;
}
MS_INLINE F16 sub(F16 a, F16 b) {
  MS_LANES a.l[i] = a.l[i] - b.l[i];
  return a;
}
MS_INLINE F16 mul(F16 a, F16 b) {
  MS_LANES a.l[i] = a.l[i] * b.l[i];
  return a;
}
MS_INLINE F16 div(F16 a, F16 b) {
  MS_LANES a.l[i] = a.l[i] / b.l[i];
  return a;
}
MS_INLINE F16 sqrt(F16 a) {
  MS_LANES a.l[i] = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a.l[i])));
  return a;
}
MS_INLINE F16 fma(F16 a, F16 b, F16 c) {
  MS_LANES c.l[i] = __builtin_fmaf(a.l[i], b.l[i], c.l[i]);
  return c;
}
MS_INLINE F16 neg(F16 a) {
  MS_LANES a.l[i] = float1(bits1(a.l[i]) ^ 0x80000000u);
  return a;
}
MS_INLINE F16 fnma(F16 a, F16 b, F16 c) { return fma(neg(a), b, c); }
MS_INLINE F16 abs(F16 a) {
  MS_LANES a.l[i] = float1(bits1(a.l[i]) & 0x7fffffffu);
  return a;
}
MS_INLINE F16 max(F16 a, F16 b) {
  MS_LANES a.l[i] = max1(a.l[i], b.l[i]);
  return a;
}
MS_INLINE F16 min(F16 a, F16 b) {
  MS_LANES a.l[i] = min1(a.l[i], b.l[i]);
  return a;
}

MS_INLINE M16 lt(F16 a, F16 b) {
  M16 m{0};
  MS_LANES m.bits |= static_cast<uint32_t>(a.l[i] < b.l[i]) << i;
  return m;
}
MS_INLINE M16 le(F16 a, F16 b) {
  M16 m{0};
  MS_LANES m.bits |= static_cast<uint32_t>(a.l[i] <= b.l[i]) << i;
  return m;
}
MS_INLINE M16 eq(F16 a, F16 b) {
  M16 m{0};
  MS_LANES m.bits |= static_cast<uint32_t>(a.l[i] == b.l[i]) << i;
  return m;
}
MS_INLINE M16 is_nan(F16 a) {
  M16 m{0};
  MS_LANES m.bits |= static_cast<uint32_t>((bits1(a.l[i]) & 0x7fffffffu) > 0x7f800000u) << i;
  return m;
}
MS_INLINE M16 first_n(int n) { return {(1u << n) - 1u}; }
MS_INLINE M16 mask_and(M16 a, M16 b) { return {a.bits & b.bits}; }
MS_INLINE M16 mask_or(M16 a, M16 b) { return {a.bits | b.bits}; }
MS_INLINE M16 mask_not(M16 a) { return {~a.bits & 0xffffu}; }
MS_INLINE bool any(M16 m) { return m.bits != 0; }
MS_INLINE F16 select(M16 m, F16 a, F16 b) {
  MS_LANES b.l[i] = ((m.bits >> i) & 1u) ? a.l[i] : b.l[i];
  return b;
}

MS_INLINE I16 iset(int32_t x) {
  I16 r;
  MS_LANES r.l[i] = x;
  return r;
}
MS_INLINE I16 iload(const int32_t* p) {
  I16 r;
  MS_LANES r.l[i] = p[i];
  return r;
}
MS_INLINE void istore(int32_t* p, I16 a) { MS_LANES p[i] = a.l[i]; }
MS_INLINE I16 round_to_int(F16 a) {
  I16 r;
  MS_LANES r.l[i] = _mm_cvtss_si32(_mm_set_ss(a.l[i]));
  return r;
}
MS_INLINE F16 to_float(I16 a) {
  F16 r;
  MS_LANES r.l[i] = static_cast<float>(a.l[i]);
  return r;
}
MS_INLINE I16 bits(F16 a) {
  I16 r;
  MS_LANES r.l[i] = static_cast<int32_t>(bits1(a.l[i]));
  return r;
}
MS_INLINE F16 from_bits(I16 a) {
  F16 r;
  MS_LANES r.l[i] = float1(static_cast<uint32_t>(a.l[i]));
  return r;
}
#define MS_SCALAR_INT_OP(name, op)                                                            \
  MS_INLINE I16 name(I16 a, I16 b) {                                                          \
    MS_LANES a.l[i] =                                                                         \
        static_cast<int32_t>(static_cast<uint32_t>(a.l[i]) op static_cast<uint32_t>(b.l[i])); \
    return a;                                                                                 \
  }
MS_SCALAR_INT_OP(iadd, +)
MS_SCALAR_INT_OP(isub, -)
MS_SCALAR_INT_OP(iand, &)
MS_SCALAR_INT_OP(ior, |)
MS_SCALAR_INT_OP(ixor, ^)
#undef MS_SCALAR_INT_OP
MS_INLINE I16 load_bytes_n(const uint8_t* p, int n) {
  I16 r;
  MS_LANES r.l[i] = i < n ? p[i] : 0;
  return r;
}
MS_INLINE void store_bytes_n(uint8_t* p, I16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(a.l[i]);
}
MS_INLINE F16 gather(const float* table, I16 at) {
  F16 r;
  MS_LANES r.l[i] = table[at.l[i]];
  return r;
}
/// The low and high words of the products of unsigned lanes.
MS_INLINE void imul_wide(I16 a, uint32_t b, I16& low, I16& high) {
  MS_LANES {
    const uint64_t p = uint64_t{static_cast<uint32_t>(a.l[i])} * b;
    low.l[i] = static_cast<int32_t>(static_cast<uint32_t>(p));
    high.l[i] = static_cast<int32_t>(static_cast<uint32_t>(p >> 32));
  }
}
template <int N>
MS_INLINE I16 shl(I16 a) {
  MS_LANES a.l[i] = static_cast<int32_t>(static_cast<uint32_t>(a.l[i]) << N);
  return a;
}
template <int N>
MS_INLINE I16 shr(I16 a) {
  MS_LANES a.l[i] = static_cast<int32_t>(static_cast<uint32_t>(a.l[i]) >> N);
  return a;
}
template <int N>
MS_INLINE I16 sar(I16 a) {
  MS_LANES a.l[i] = a.l[i] >> N;
  return a;
}
MS_INLINE M16 ieq(I16 a, I16 b) {
  M16 m{0};
  MS_LANES m.bits |= static_cast<uint32_t>(a.l[i] == b.l[i]) << i;
  return m;
}
MS_INLINE M16 igt(I16 a, I16 b) {
  M16 m{0};
  MS_LANES m.bits |= static_cast<uint32_t>(a.l[i] > b.l[i]) << i;
  return m;
}
MS_INLINE I16 iselect(M16 m, I16 a, I16 b) {
  MS_LANES b.l[i] = ((m.bits >> i) & 1u) ? a.l[i] : b.l[i];
  return b;
}

MS_INLINE float sum(F16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.l[i] = a.l[i] + a.l[i + width];
  }
  return a.l[0];
}
MS_INLINE float max_lane(F16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.l[i] = max1(a.l[i], a.l[i + width]);
  }
  return a.l[0];
}

MS_INLINE P16 load_pairs_n(const uint32_t* p, int n) {
  P16 r;
  MS_LANES r.l[i] = i < n ? p[i] : 0u;
  return r;
}
MS_INLINE P16 load_pairs(const uint32_t* p) { return load_pairs_n(p, 16); }
MS_INLINE P16 broadcast_pair(uint32_t x) {
  P16 r;
  MS_LANES r.l[i] = x;
  return r;
}
MS_INLINE P16 pack_pairs(F16 even, F16 odd) {
  P16 r;
  MS_LANES r.l[i] = to_bf16_1(even.l[i]) | static_cast<uint32_t>(to_bf16_1(odd.l[i])) << 16;
  return r;
}
MS_INLINE void store_pairs(uint32_t* p, P16 a) { MS_LANES p[i] = a.l[i]; }
MS_INLINE F16 pair_even(P16 a) {
  F16 r;
  MS_LANES r.l[i] = float1(a.l[i] << 16);
  return r;
}
MS_INLINE F16 pair_odd(P16 a) {
  F16 r;
  MS_LANES r.l[i] = float1(a.l[i] & 0xffff0000u);
  return r;
}
MS_INLINE F16 dot(F16 acc, P16 a, P16 b) {
  acc = fma(pair_odd(a), pair_odd(b), acc);
  return fma(pair_even(a), pair_even(b), acc);
}

/// Pairs (even[i], odd[i]) of two rows.
MS_INLINE P16 zip_pairs_n(const uint16_t* even, const uint16_t* odd, int n) {
  P16 r;
  MS_LANES r.l[i] = i < n ? even[i] | static_cast<uint32_t>(odd[i]) << 16 : 0u;
  return r;
}
MS_INLINE P16 zip_pairs(const uint16_t* even, const uint16_t* odd) {
  return zip_pairs_n(even, odd, 16);
}

/// 8 words, for packing.
struct U8 {
  uint32_t l[8];
};
MS_INLINE U8 load_words(const void* p) {
  U8 r;  // p may lie between words: a row of bf16 starts anywhere
  __builtin_memcpy(r.l, p, sizeof r.l);
  return r;
}
MS_INLINE void store_words(uint32_t* p, U8 a) {
  for (int i = 0; i < 8; ++i) p[i] = a.l[i];
}
MS_INLINE U8 upper_halves(U8 a) {
  for (int i = 0; i < 8; ++i) a.l[i] &= 0xffff0000u;
  return a;
}
MS_INLINE U8 lower_halves_up(U8 a) {
  for (int i = 0; i < 8; ++i) a.l[i] <<= 16;
  return a;
}
MS_INLINE void transpose_words(U8 (&r)[8]) {
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < i; ++j) {
      const uint32_t t = r[i].l[j];
      r[i].l[j] = r[j].l[i];
      r[j].l[i] = t;
    }
  }
}

#undef MS_LANES

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

// How optimizer states are kept in fewer bits, for one path: 8-bit codes, bf16 rounded by chance,
// and the moving average of the weights.
//
// The one idea: an update is computed in f32 on a slice that fits the first cache, whatever its
// states are kept in; these kernels only bring a slice there and back. What they store is a
// function of the f32 value, the block it lies in (8 bits) or its index (bf16), so splitting the
// work changes nothing.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {

/// x[i] = level of codes[i], times the block's largest value.
inline void decode_moments(int64_t n, const CodeBook& book, float largest, const uint8_t* codes,
                           float* x) {
  const F16 factor = broadcast(largest);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(x + i, mul(gather(book.levels, load_bytes_n(codes + i, count)), factor), count);
  });
}

/// How many of the 255 borders lie below y: a search by halves, so that it takes 8 looks for any y.
MS_INLINE I16 borders_below(const float* borders, F16 y) {
  I16 found = iset(0);
  for (int32_t half = 128; half > 0; half /= 2) {
    const F16 border = gather(borders, iadd(found, iset(half - 1)));
    found = iselect(lt(border, y), iadd(found, iset(half)), found);
  }
  return found;
}

/// Codes of one block (at most 256 values); returns its largest magnitude.
inline float encode_moments(int64_t n, const CodeBook& book, const float* x, uint8_t* codes) {
  F16 lanes = zero();
  each_vector(0, n, [&](int64_t i, int count) MS_INLINE_LAMBDA {
    lanes = max(abs(load_n(x + i, count)), lanes);
  });
  const float largest = max_lane(lanes);
  const F16 divisor = broadcast(largest);
  const M16 is_any = lt(zero(), divisor);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 value = load_n(x + i, count);
    I16 code = borders_below(book.borders, select(is_any, div(value, divisor), zero()));
    if (book.keeps_positive) {
      const M16 vanished = mask_and(ieq(code, iset(0)), lt(zero(), value));
      code = iselect(vanished, iset(1), code);
    }
    store_bytes_n(codes + i, code, count);
  });
  return largest;
}

inline void widen_bf16_values(int64_t n, const uint16_t* x, float* y) {
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    store_n(y + i, Bf16::load_n(x + i, count), count);
  });
}

/// The bf16 below x in magnitude, or the next one, if its lower half and 16 random bits carry. What
/// is not finite stays; x is no denormal (rule 1).
MS_INLINE F16 round_by_chance(F16 x, I16 chance) {
  const I16 u = bits(x);
  const I16 exponent = iset(0x7f800000);
  const I16 up = iand(iadd(u, chance), iset(static_cast<int32_t>(0xffff0000u)));
  return from_bits(iselect(ieq(iand(u, exponent), exponent), u, up));
}

/// Rounds slices of up to three arrays of one parameter. Elements 32 g to 32 g + 31 of the
/// parameter share Philox counters 16 g to 16 g + 15, lane l's for elements l and l + 16: words 0
/// and 1 are the first one's, 2 and 3 the second's. Array 0 takes the upper half of the first of
/// these, array 1 its lower half, array 2 the upper half of the second. `r.first` is a multiple
/// of 32.
inline void round_states(int64_t n, const RoundingKey& r, int arrays, const float* const* x,
                         uint16_t* const* y) {
  alignas(64) int32_t lanes[16];
  for (int l = 0; l < 16; ++l) lanes[l] = l;
  const I16 k0 = iset(static_cast<int32_t>(r.key[0]));
  const I16 k1 = iset(static_cast<int32_t>(r.key[1]));
  for (int64_t i = 0; i < n; i += 32) {
    const uint64_t counter = static_cast<uint64_t>(r.first + i) / 2;
    // No carry into the upper word: the lower one is a multiple of 16.
    const Philox16 words = philox16(
        {{iadd(iload(lanes), iset(static_cast<int32_t>(static_cast<uint32_t>(counter)))),
          iset(static_cast<int32_t>(static_cast<uint32_t>(counter >> 32))), iset(0), iset(0)}},
        k0, k1);
    for (int half = 0; half < 2; ++half) {
      const int64_t at = i + 16 * half;
      if (at >= n) break;
      const int count = lanes_left(n, at);
      const I16 first = words.c[2 * half];
      const I16 chance[3] = {shr<16>(first), iand(first, iset(0xffff)),
                             shr<16>(words.c[2 * half + 1])};
      for (int a = 0; a < arrays; ++a) {
        const F16 rounded = round_by_chance(load_n(x[a] + at, count), chance[a]);
        Bf16::store_n(y[a] + at, rounded, count);
      }
    }
  }
}

/// average += rate (param - average).
template <class M>
void ema_values(int64_t n, float rate, const void* param, float* average) {
  const F16 weight = broadcast(rate);
  each_vector(0, n, [=](int64_t i, int count) MS_INLINE_LAMBDA {
    const F16 old = mainspring::cpu::MS_ISA_NAMESPACE::load_n(average + i, count);
    const F16 away = sub(M::load_n(M::in(param) + i, count), old);
    mainspring::cpu::MS_ISA_NAMESPACE::store_n(average + i, fma(away, weight, old), count);
  });
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

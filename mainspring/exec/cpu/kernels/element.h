// The two compute dtypes as types: how an activation is loaded, stored, rounded and multiplied.
//
// The one idea: a kernel is a template over Bf16 or F32. In a dot of K terms a step is a pair in
// bf16 (rule 4's order) and one element in f32, so both read "for each step: acc = step(acc, left,
// right)". The right operand lies in panels of 16 columns, [step][16] Lane. The left operand is a
// row of Left values: plain bf16 where the processor multiplies pairs, widened to f32 elsewhere
// because a broadcast from memory is free there and a shift is not.
#pragma once

// rows_wide_avx2.cc sets MS_PAIR_LEFT itself, to test this layout without AVX512-BF16.
#if defined(MS_ISA_AVX512BF16)
#define MS_PAIR_LEFT
#endif

namespace mainspring::cpu::MS_ISA_NAMESPACE {

struct Bf16 {
  using Value = uint16_t;
  using Lane = uint32_t;  // a pair
  static constexpr int kStep = 2;
#if defined(MS_PAIR_LEFT)
  using Left = uint16_t;
#else
  using Left = float;
#endif

  static MS_INLINE const Value* in(const void* p) { return static_cast<const Value*>(p); }
  static MS_INLINE Value* out(void* p) { return static_cast<Value*>(p); }
  static MS_INLINE F16 load(const Value* p) { return load_bf16(p); }
  static MS_INLINE F16 load_n(const Value* p, int n) {
    return n == 16 ? load_bf16(p) : load_bf16_n(p, n);
  }
  static MS_INLINE void store(Value* p, F16 x) { store_bf16(p, x); }
  static MS_INLINE void store_n(Value* p, F16 x, int n) {
    if (n == 16) {
      store_bf16(p, x);
    } else {
      store_bf16_n(p, x, n);
    }
  }
  static MS_INLINE F16 round(F16 x) { return round_bf16(x); }
  /// Moves values into a left operand; they are the dtype's own, so nothing is rounded.
  static MS_INLINE void move_left(Left* p, const Value* values, int n) {
#if defined(MS_PAIR_LEFT)
    for (int i = 0; i < 16; ++i) p[i] = i < n ? values[i] : Value{0};
#else
    mainspring::cpu::MS_ISA_NAMESPACE::store(p, load_n(values, n));
#endif
  }
  /// Rounds into a left operand.
  static MS_INLINE void store_left(Left* p, F16 x) {
#if defined(MS_PAIR_LEFT)
    store_bf16(p, x);
#else
    mainspring::cpu::MS_ISA_NAMESPACE::store(p, round_bf16(x));
#endif
  }
};

struct F32 {
  using Value = float;
  using Lane = float;
  using Left = float;
  static constexpr int kStep = 1;

  static MS_INLINE const Value* in(const void* p) { return static_cast<const Value*>(p); }
  static MS_INLINE Value* out(void* p) { return static_cast<Value*>(p); }
  static MS_INLINE F16 load(const Value* p) { return mainspring::cpu::MS_ISA_NAMESPACE::load(p); }
  static MS_INLINE F16 load_n(const Value* p, int n) {
    return mainspring::cpu::MS_ISA_NAMESPACE::load_n(p, n);
  }
  static MS_INLINE void store(Value* p, F16 x) { mainspring::cpu::MS_ISA_NAMESPACE::store(p, x); }
  static MS_INLINE void store_n(Value* p, F16 x, int n) {
    mainspring::cpu::MS_ISA_NAMESPACE::store_n(p, x, n);
  }
  static MS_INLINE F16 round(F16 x) { return x; }
  static MS_INLINE void move_left(Left* p, const Value* values, int n) {
    mainspring::cpu::MS_ISA_NAMESPACE::store(p, load_n(values, n));
  }
  static MS_INLINE void store_left(Left* p, F16 x) {
    mainspring::cpu::MS_ISA_NAMESPACE::store(p, x);
  }
};

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE

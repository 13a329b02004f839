// What a processor's multiply-add can do at most: chains of nothing else, for the benchmarks.
//
// The one idea: twelve independent chains hide the latency of every processor we know, so a rate is
// compared with what the path's own instruction gives on the machine at hand, not with a data
// sheet.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "mainspring/base/thread_pool.h"
#include "mainspring/exec/cpu/isa.h"

namespace mainspring::cpu {

// 8-lane FMAs: two a cycle on every processor with two FMA units.
__attribute__((target("avx2,fma"))) inline void fma_chains(int64_t count, float* out) {
  __m256 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int64_t n = 0; n < count; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], a, b);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  _mm256_storeu_ps(out, acc[0]);
}
__attribute__((target("avx512f"))) inline void fma_chains_512(int64_t count, float* out) {
  __m512 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int64_t n = 0; n < count; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_fmadd_ps(acc[i], a, b);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  _mm512_storeu_ps(out, acc[0]);
}

__attribute__((target("avx512f,avx512bf16"))) inline void dot_chains_512(int64_t count,
                                                                         float* out) {
  __m512 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh a = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(0x3f7f3f7f));
  for (int64_t n = 0; n < count; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], a, a);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  _mm512_storeu_ps(out, acc[0]);
}

struct PeakChains {
  const char* name;
  int flops;  // of one count: twelve instructions
  void (*run)(int64_t count, float* sink16);
};

inline PeakChains peak_chains(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Bf16:
      return {"vdpbf16ps peak", 12 * 64, dot_chains_512};
    case Isa::kAvx512:
      return {"fma peak, 16 lanes", 12 * 32, fma_chains_512};
    default:
      return {"fma peak, 8 lanes", 12 * 16, fma_chains};
  }
}

/// Runs `count` of the chains on every thread of the pool.
inline void run_chains(ThreadPool& pool, const PeakChains& chains, int64_t count) {
  pool.run(pool.size(), [&](int64_t, int) {
    alignas(64) float sink[16];
    chains.run(count, sink);
    asm volatile("" : : "r"(sink) : "memory");
  });
}

/// FLOP/s of the path's multiply-add on all threads of the pool, the best of 20 rounds.
inline double measure_instruction_peak(ThreadPool& pool, Isa isa) {
  constexpr int64_t kCount = 200000;
  const PeakChains chains = peak_chains(isa);
  double best = 0.0;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    run_chains(pool, chains, kCount);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best =
        std::max(best, static_cast<double>(kCount) * chains.flops * pool.size() / elapsed.count());
  }
  return best;
}

}  // namespace mainspring::cpu

// Attention at SmolLM2's shape: 9 query heads and 3 kv heads of 64, causal, bf16.
//
// Reports GFLOP/s over unmasked pairs only (2 products forward, 5 backward) and the share of the
// peak of the path's multiply-add (vdpbf16ps where there is one), measured just before in the same
// process.

#include <algorithm>
#include <cmath>

#include <benchmark/benchmark.h>

#include "mainspring/exec/cpu/peak_chains.h"
#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

/// What the product would use, or MS_ISA.
Isa path() {
  static const Isa isa = choose_isa("").value().isa;
  return isa;
}

class Problem {
 public:
  Problem(int64_t rows, int64_t positions_before, int threads)
      : rows_(rows), pool_(threads), context_(make_context(path(), pool_, DType::kBF16)) {
    shape_ = {9, 3, 64, 0.125f, 0};
    const int64_t keys = rows + positions_before;
    q_ = Values::random(DType::kBF16, keys * 9 * 64, 1, 2.0f);
    k_ = Values::random(DType::kBF16, keys * 3 * 64, 2, 2.0f);
    v_ = Values::random(DType::kBF16, keys * 3 * 64, 3, 1.0f);
    d_o_ = Values::random(DType::kBF16, keys * 9 * 64, 4, 1.0f);
    o_ = dq_ = Values(DType::kBF16, keys * 9 * 64);
    dk_ = dv_ = Values(DType::kBF16, keys * 3 * 64);
    lse_.resize(static_cast<size_t>(keys * 9));
    scratch_ = scratch_of(std::max(attention_forward_scratch_bytes(context_, shape_, rows),
                                   attention_grad_scratch_bytes(context_, shape_, rows)));
    segment_.num_rows = static_cast<int32_t>(rows);
    segment_.position = static_cast<int32_t>(positions_before);
    if (positions_before > 0) make_cache(keys);
    table_.num_rows = segment_.num_rows;
    table_.segments = {&segment_, 1};
  }

  void forward() {
    attention_forward(context_, shape_, rows_, q_.data(), k_.data(), v_.data(), o_.data(),
                      lse_.data(), table_, segment_.cache_sequence >= 0 ? &kv_ : nullptr, 0,
                      aligned(scratch_));
  }
  void backward() {
    attention_grad(context_, shape_, rows_, q_.data(), k_.data(), v_.data(), o_.data(), lse_.data(),
                   d_o_.data(), dq_.data(), dk_.data(), dv_.data(), table_, aligned(scratch_));
  }
  double peak() { return measure_instruction_peak(pool_, path()); }
  /// FLOPs of one 64-wide product over the unmasked pairs of all heads.
  double product_flops() const {
    const auto before = static_cast<double>(segment_.position);
    const auto rows = static_cast<double>(rows_);
    return 9.0 * 64.0 * 2.0 * (rows * before + rows * (rows + 1.0) / 2.0);
  }

 private:
  void make_cache(int64_t keys) {
    for (int32_t page = 0; page * kPageTokens < keys; ++page) pages_.push_back(page);
    const auto values = static_cast<int64_t>(pages_.size()) * kPageTokens * 3 * 64;
    key_pages_ = Values::random(DType::kBF16, values, 5, 2.0f);
    value_pages_ = Values::random(DType::kBF16, values, 6, 1.0f);
    key_pointer_ = key_pages_.data();
    value_pointer_ = value_pages_.data();
    sequence_.pages = pages_;
    kv_.keys = {&key_pointer_, 1};
    kv_.values = {&value_pointer_, 1};
    kv_.row_elements = kv_row_elements(3, 64);
    kv_.sequences = {&sequence_, 1};
    segment_.cache_sequence = 0;
  }

  int64_t rows_;
  ThreadPool pool_;
  Context context_;
  AttentionShape shape_;
  Values q_, k_, v_, d_o_, o_, dq_, dk_, dv_, key_pages_, value_pages_;
  std::vector<float> lse_;
  std::vector<char> scratch_;
  std::vector<int32_t> pages_;
  void* key_pointer_ = nullptr;
  void* value_pointer_ = nullptr;
  KvSequence sequence_;
  KvView kv_;
  Segment segment_;
  RowTable table_;
};

void report(benchmark::State& state, double flops, double peak) {
  const auto total = flops * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_peak"] = benchmark::Counter(total / peak, benchmark::Counter::kIsRate);
  state.counters["peak GFLOP/s"] = peak * 1e-9;
}

void forward(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(1));
  Problem problem(state.range(0), 0, threads);
  const double peak = problem.peak();
  for (auto _ : state) problem.forward();
  report(state, 2 * problem.product_flops(), peak);
}

void backward(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(1));
  Problem problem(state.range(0), 0, threads);
  const double peak = problem.peak();
  problem.forward();
  for (auto _ : state) problem.backward();
  report(state, 5 * problem.product_flops(), peak);
}

void both(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(1));
  Problem problem(state.range(0), 0, threads);
  const double peak = problem.peak();
  for (auto _ : state) {
    problem.forward();
    problem.backward();
  }
  report(state, 7 * problem.product_flops(), peak);
}

/// One new row against a cache of range(0) positions.
void decode(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(1));
  Problem problem(1, state.range(0), threads);
  const double peak = problem.peak();
  for (auto _ : state) problem.forward();
  report(state, 2 * problem.product_flops(), peak);
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * (state.range(0) + 1) * 2 * 3 * 64 * 2) * 1e-9,
      benchmark::Counter::kIsRate);
}

// One thread by processor time, so that a busy machine does not blur it; two by wall time.
BENCHMARK(forward)->Args({256, 1})->Args({1024, 1});
BENCHMARK(backward)->Args({256, 1})->Args({1024, 1});
BENCHMARK(both)->Args({1024, 1});
BENCHMARK(both)->Args({1024, 2})->Args({4096, 2})->Args({32768, 2})->UseRealTime();
BENCHMARK(decode)->Args({256, 1})->Args({4096, 1});

}  // namespace
}  // namespace mainspring::cpu

#include "mainspring/exec/cpu/peaks.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "mainspring/base/check.h"
#include "mainspring/exec/cpu/kernels/table.h"

namespace mainspring::cpu {

double measure_peak_flops(const Context& context) {
  constexpr int64_t kPairs = 128;
  constexpr int kTilesPerTask = 500;
  constexpr int kRounds = 20;
  const LinearKernels& k = context.kernels->linear->bf16;
  const std::vector<bf16> ones(2 * kPairs * kMaxTileFloats, to_bf16(1.0f));
  const double tile_flops = 4.0 * kPairs * k.tile_rows * k.panel_columns;
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    context.pool->run(context.pool->size(), [&](int64_t, int) {
      const ComputeScope scope;
      alignas(64) float c[kMaxTileFloats];
      const TileTerm term{
          .a = ones.data(), .b = ones.data(), .pairs = kPairs, .chunk_pairs = kPairs};
      const TileArgs args{.terms = &term, .num_terms = 1, .c = c, .c_stride = k.panel_columns};
      for (int i = 0; i < kTilesPerTask; ++i) k.tile[k.tile_rows - 1][0](args);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, tile_flops * kTilesPerTask * context.pool->size() / time.count());
  }
  return best;
}

double measure_memory_bandwidth(const Context& context) {
  constexpr int64_t kElements = int64_t{1} << 24;  // of f32: 64 MiB
  constexpr int64_t kPart = int64_t{1} << 18;      // a task's
  constexpr int kRounds = 6;
  std::vector<float> a(kElements);
  const std::vector<float> b(kElements, 1.0f);
  const std::vector<float> c(kElements, 0.5f);
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    context.pool->run(kElements / kPart, [&](int64_t part, int) {
      float* to = a.data() + part * kPart;
      const float* x = b.data() + part * kPart;
      const float* y = c.data() + part * kPart;
      for (int64_t i = 0; i < kPart; ++i) to[i] = x[i] + 2.0f * y[i];
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, 3.0 * sizeof(float) * static_cast<double>(kElements) / time.count());
  }
  MS_CHECK(a.back() == 2.0f, "the timed sum is wrong");
  return best;
}

}  // namespace mainspring::cpu

#include "mainspring/exec/cpu/peaks.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "mainspring/base/check.h"
#include "mainspring/exec/cpu/kernels/table.h"

namespace mainspring::cpu {

namespace {

constexpr int64_t kPairs = 128;

/// A path's largest bf16 tile with operands that stay in the first-level cache.
struct LargestTile {
  explicit LargestTile(const KernelTable& table)
      : kernels(table.linear->bf16),
        ones(static_cast<size_t>(2 * kPairs * kMaxTileFloats), to_bf16(1.0f)) {}

  double flops() const { return 4.0 * kPairs * kernels.tile_rows * kernels.panel_columns; }
  void run(int count) const {
    const ComputeScope scope;
    alignas(64) float c[kMaxTileFloats];
    const TileTerm term{.a = ones.data(), .b = ones.data(), .pairs = kPairs, .chunk_pairs = kPairs};
    const TileArgs args{.terms = &term, .num_terms = 1, .c = c, .c_stride = kernels.panel_columns};
    for (int i = 0; i < count; ++i) kernels.tile[kernels.tile_rows - 1][0](args);
  }

  const LinearKernels& kernels;
  std::vector<bf16> ones;
};

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double time_tiles(const KernelTable& table, int count) {
  const LargestTile tile(table);
  tile.run(1);
  return tile.flops() * count / seconds_of([&] { tile.run(count); });
}

double measure_peak_flops(const Context& context) {
  constexpr int kTilesPerTask = 500;
  constexpr int kRounds = 20;
  const LargestTile tile(*context.kernels);
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    const double seconds = seconds_of([&] {
      context.pool->run(context.pool->size(), [&](int64_t, int) { tile.run(kTilesPerTask); });
    });
    best = std::max(best, tile.flops() * kTilesPerTask * context.pool->size() / seconds);
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
    const double seconds = seconds_of([&] {
      context.pool->run(kElements / kPart, [&](int64_t part, int) {
        float* to = a.data() + part * kPart;
        const float* x = b.data() + part * kPart;
        const float* y = c.data() + part * kPart;
        for (int64_t i = 0; i < kPart; ++i) to[i] = x[i] + 2.0f * y[i];
      });
    });
    best = std::max(best, 3.0 * sizeof(float) * static_cast<double>(kElements) / seconds);
  }
  MS_CHECK(a.back() == 2.0f, "the timed sum is wrong");
  return best;
}

}  // namespace mainspring::cpu

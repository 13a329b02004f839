#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "mainspring/base/bf16.h"
#include "mainspring/base/thread_pool.h"
#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/cpu/kernels/table.h"

namespace mainspring::cpu {
namespace {

// Rule 2 on all inputs, on every path, against the definition in base/bf16.h.
TEST(RoundingTest, EveryPathRoundsAllFloatsToBf16AsTheDefinition) {
  constexpr int64_t kBatch = 1 << 16;
  for (const Isa isa : supported_isas()) {
    const LinearKernels& kernels = kernel_table(isa).linear->bf16;
    ThreadPool pool(2);
    std::vector<int64_t> different(1 << 16);
    pool.run(1 << 16, [&](int64_t high, int) {
      float x[kBatch / 16];
      uint16_t y[kBatch / 16];
      for (int64_t part = 0; part < 16; ++part) {
        for (int64_t i = 0; i < kBatch / 16; ++i) {
          x[i] =
              std::bit_cast<float>(static_cast<uint32_t>(high << 16 | (part * (kBatch / 16) + i)));
        }
        kernels.round_values(x, kBatch / 16, false, y);
        for (int64_t i = 0; i < kBatch / 16; ++i) {
          different[static_cast<size_t>(high)] += to_bf16(x[i]).bits != y[i];
        }
      }
    });
    for (const int64_t count : different) ASSERT_EQ(count, 0) << isa_name(isa);
  }
}

}  // namespace
}  // namespace mainspring::cpu

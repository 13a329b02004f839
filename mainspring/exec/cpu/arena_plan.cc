#include "mainspring/exec/cpu/arena_plan.h"

#include <algorithm>
#include <numeric>

namespace mainspring::cpu {
namespace {

constexpr int64_t kAlign = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lifetimes[a].bytes != lifetimes[b].bytes ? lifetimes[a].bytes > lifetimes[b].bytes
                                                    : a < b;
  });
  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> placed;  // by offset
  for (size_t index : order) {
    const Lifetime& life = lifetimes[index];
    int64_t offset = 0;
    for (size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < life.first || life.last < o.first) continue;
      if (offset + life.bytes <= plan.offsets[other]) break;
      offset = std::max(offset, aligned(plan.offsets[other] + o.bytes));
    }
    plan.offsets[index] = offset;
    plan.total_bytes = std::max(plan.total_bytes, aligned(offset + life.bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), index,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        index);
  }
  return plan;
}

}  // namespace mainspring::cpu

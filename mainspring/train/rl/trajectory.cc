#include "mainspring/train/rl/trajectory.h"

#include <numeric>

namespace mainspring {

int64_t Branch::num_sampled() const {
  return std::accumulate(sampled.begin(), sampled.end(), int64_t{0});
}

int64_t Trajectory::num_sampled() const {
  int64_t n = 0;
  for (const Branch& branch : branches) n += branch.num_sampled();
  return n;
}

}  // namespace mainspring

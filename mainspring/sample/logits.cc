#include "mainspring/sample/logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mainspring/base/check.h"
#include "mainspring/base/philox.h"
#include "mainspring/base/thread_pool.h"

namespace mainspring {
namespace {

constexpr int kSegments = 8;
constexpr int kLanes = 16;
// The third counter word tells what random numbers are for; "TOKN", "SEED".
constexpr uint32_t kTokenPurpose = 0x544f4b4e;
constexpr uint32_t kSeedPurpose = 0x53454544;
constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// Positions of rule 14's cut.
struct Cut {
  int64_t n;
  int64_t length;
  explicit Cut(int64_t size)
      : n(size), length(((size + kSegments - 1) / kSegments + kLanes - 1) / kLanes * kLanes) {}
  int64_t begin(int64_t segment) const { return std::min(n, segment * length); }
};

float segment_sum(const float* e, int64_t begin, int64_t end) {
  float lanes[kLanes] = {};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += e[i + lane];
  }
  for (int lane = 0; i + lane < end; ++lane) lanes[lane] += e[i + lane];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

/// Sums of all nodes of the tree over segments: [1] is the root, [8 + s] segment s.
using SumTree = std::array<float, 2 * kSegments>;

SumTree sum_tree(std::span<const float> e) {
  const Cut cut(static_cast<int64_t>(e.size()));
  SumTree tree{};
  for (int64_t s = 0; s < kSegments; ++s) {
    tree[static_cast<size_t>(kSegments + s)] =
        segment_sum(e.data(), cut.begin(s), cut.begin(s + 1));
  }
  for (size_t node = kSegments - 1; node >= 1; --node)
    tree[node] = tree[2 * node] + tree[2 * node + 1];
  return tree;
}

void exclude_others(const AllowedTokens& allowed, std::span<const float> logits,
                    std::span<float> changed) {
  for (size_t i = 0; i < changed.size(); ++i) {
    if (!allowed.set->has(static_cast<int32_t>(i))) changed[i] = kExcluded;
  }
  for (const int32_t token : allowed.also)
    changed[static_cast<size_t>(token)] = logits[static_cast<size_t>(token)];
}

}  // namespace

float segmented_sum(std::span<const float> e) { return sum_tree(e)[1]; }

int32_t choose_by_cdf(std::span<const float> e, float uniform) {
  const SumTree tree = sum_tree(e);
  float t = uniform * tree[1];
  size_t node = 1;
  while (node < kSegments) {
    const float left = tree[2 * node];
    if (t < left || tree[2 * node + 1] <= 0.0f) {
      node = 2 * node;
    } else {
      t -= left;
      node = 2 * node + 1;
    }
  }
  const Cut cut(static_cast<int64_t>(e.size()));
  const int64_t segment = static_cast<int64_t>(node) - kSegments;
  float c = 0.0f;
  int64_t last = -1;
  for (int64_t i = cut.begin(segment); i < cut.begin(segment + 1); ++i) {
    const float term = e[static_cast<size_t>(i)];
    if (term <= 0.0f) continue;  // adds nothing
    c += term;
    last = i;
    if (t < c) break;
  }
  MS_CHECK(last >= 0, "a law without a token");
  return static_cast<int32_t>(last);
}

TokenChooser::TokenChooser(const RowMath& math, int64_t vocabulary)
    : math_(math),
      vocabulary_(vocabulary),
      x_(static_cast<size_t>(vocabulary)),
      e_(static_cast<size_t>(vocabulary)),
      kept_x_(static_cast<size_t>(vocabulary), kExcluded),
      kept_e_(static_cast<size_t>(vocabulary), 0.0f) {}

Choice TokenChooser::choose(std::span<const float> logits, const Law& law, float uniform,
                            const TokenHistory* history, const AllowedTokens* allowed) {
  const ComputeScope scope;
  MS_CHECK(static_cast<int64_t>(logits.size()) == vocabulary_, "one logit per token");
  Choice choice;
  const RowMath::Stats raw = math_.stats(logits.data(), vocabulary_);
  choice.raw_lse = raw.lse;
  if (!std::isfinite(raw.lse)) return choice;
  if (law.penalties.any() || allowed != nullptr) {
    changed_.assign(logits.begin(), logits.end());
    if (allowed != nullptr) exclude_others(*allowed, logits, changed_);
    if (law.penalties.any()) {
      MS_CHECK(history != nullptr, "penalties look at a history");
      apply_penalties(law.penalties, *history, changed_);
    }
    choose_from(changed_, nullptr, law, uniform, choice);
  } else {
    choose_from(logits, &raw, law, uniform, choice);
  }
  if (choice.token >= 0)
    choice.raw_logprob = logits[static_cast<size_t>(choice.token)] - choice.raw_lse;
  return choice;
}

/// Token, log-probability and size of the set under the law without its penalties. `stats` of the
/// logits, null if not known yet.
void TokenChooser::choose_from(std::span<const float> logits, const RowMath::Stats* stats,
                               const Law& law, float uniform, Choice& choice) {
  const int64_t n = vocabulary_;
  if (law.temperature == 0.0f) {
    const auto best = std::max_element(logits.begin(), logits.end());
    if (!std::isfinite(*best)) return;  // a penalty so large that logits overflow
    choice.token = static_cast<int32_t>(best - logits.begin());
    choice.kept = 1;
    return;
  }
  const float* x = logits.data();
  if (law.temperature != 1.0f) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = logits[i] / law.temperature;
    x = x_.data();
  }
  const bool is_known = stats != nullptr && x == logits.data();
  const RowMath::Stats own = is_known ? *stats : math_.stats(x, n);
  if (!std::isfinite(own.lse)) return;  // a temperature so small that x overflows
  math_.exp_row(x, n, own.max, e_.data());
  choice.kept = num_kept(logits, law, own.sum);
  if (choice.kept == n) {
    choice.token = choose_by_cdf(e_, uniform);
    choice.logprob = x[choice.token] - own.lse;
  } else {
    choose_kept(x, choice, uniform);
  }
}

void TokenChooser::choose_kept(const float* x, Choice& choice, float uniform) {
  for (int32_t i = 0; i < choice.kept; ++i) {
    const auto id = static_cast<size_t>(order_[static_cast<size_t>(i)]);
    kept_x_[id] = x[id];
    kept_e_[id] = e_[id];
  }
  choice.token = choose_by_cdf(kept_e_, uniform);
  choice.logprob = x[choice.token] - math_.stats(kept_x_.data(), vocabulary_).lse;
  clear_kept(choice.kept);
}

void TokenChooser::clear_kept(int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const auto id = static_cast<size_t>(order_[static_cast<size_t>(i)]);
    kept_x_[id] = kExcluded;
    kept_e_[id] = 0.0f;
  }
}

int32_t TokenChooser::num_kept(std::span<const float> logits, const Law& law, float sum) {
  auto kept = static_cast<int32_t>(vocabulary_);
  const bool cuts_k = law.top_k > 0 && law.top_k < kept;
  if (!cuts_k && law.top_p >= 1.0f && law.min_p <= 0.0f) return kept;
  start_order(logits, law.temperature);
  if (cuts_k) {
    kept = law.top_k;
    need_order(logits, kept);
    if (law.top_p < 1.0f) {
      for (int32_t i = 0; i < kept; ++i) {
        const auto id = static_cast<size_t>(order_[static_cast<size_t>(i)]);
        kept_e_[id] = e_[id];
      }
      sum = segmented_sum(kept_e_);
      clear_kept(kept);
    }
  }
  if (law.top_p < 1.0f) {
    const float wanted = law.top_p * sum;
    float prefix = 0.0f;
    for (int32_t i = 0; i < kept; ++i) {
      need_order(logits, i + 1);
      prefix += e_[static_cast<size_t>(order_[static_cast<size_t>(i)])];
      if (prefix >= wanted) kept = i + 1;
    }
  }
  if (law.min_p > 0.0f) {
    for (int32_t i = 1; i < kept; ++i) {
      need_order(logits, i + 1);
      if (e_[static_cast<size_t>(order_[static_cast<size_t>(i)])] < law.min_p) kept = i;
    }
  }
  return kept;
}

std::span<const int32_t> TokenChooser::best(std::span<const float> logits, int32_t count) {
  count = static_cast<int32_t>(std::min<int64_t>(count, vocabulary_));
  start_order(logits, 1.0f);
  need_order(logits, count);
  return std::span(order_).first(static_cast<size_t>(count));
}

void TokenChooser::start_order(std::span<const float> logits, float temperature) {
  order_.clear();
  best_logit_ = *std::max_element(logits.begin(), logits.end());
  // e^-8 is 3e-4: for most laws a few hundred tokens, where nearly every cut lies.
  depth_ = 8.0f * temperature;
}

void TokenChooser::need_order(std::span<const float> logits, int32_t count) {
  while (order_.size() < static_cast<size_t>(count)) {
    // After some doublings everything, whatever the logits are.
    const float lowest = depth_ < 1024.0f ? best_logit_ - depth_ : kExcluded;
    depth_ *= 2.0f;
    order_.clear();
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] >= lowest) order_.push_back(static_cast<int32_t>(i));
    }
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      const float x = logits[static_cast<size_t>(a)];
      const float y = logits[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    });
  }
}

float token_uniform(uint64_t seed, uint32_t sample, uint32_t token_index) {
  const PhiloxCounter bits = philox4x32({token_index, sample, kTokenPurpose, 0}, philox_key(seed));
  return philox_uniform(bits[0]);
}

uint64_t draw_seed(uint64_t run_seed, int64_t place) {
  const auto index = static_cast<uint64_t>(place);
  const PhiloxCounter bits = philox4x32(
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), kSeedPurpose, 0},
      philox_key(run_seed));
  return (uint64_t{bits[0]} << 21) | (bits[1] >> 11);
}

}  // namespace mainspring

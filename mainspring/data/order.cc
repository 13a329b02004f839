#include "mainspring/data/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mainspring/base/check.h"
#include "mainspring/base/philox.h"

namespace mainspring {

KeyedPermutation::KeyedPermutation(int64_t size, uint64_t seed, OrderPurpose purpose,
                                   uint32_t source, uint32_t epoch)
    : size_(static_cast<uint64_t>(size)),
      seed_(seed),
      tweak_(static_cast<uint32_t>(purpose)),
      source_(source),
      epoch_(epoch) {
  MS_CHECK(size >= 1, "a permutation needs at least one place");
  while ((uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
}

uint64_t KeyedPermutation::encrypt(uint64_t value) const {
  const auto mask = static_cast<uint32_t>((uint64_t{1} << half_bits_) - 1);
  auto left = static_cast<uint32_t>(value >> half_bits_);
  auto right = static_cast<uint32_t>(value) & mask;
  for (uint32_t round = 0; round < 6; ++round) {
    const PhiloxCounter bits =
        philox4x32({right, tweak_ << 8 | round, source_, epoch_}, philox_key(seed_));
    const uint32_t next = left ^ (bits[0] & mask);
    left = right;
    right = next;
  }
  return uint64_t{left} << half_bits_ | right;
}

int64_t KeyedPermutation::operator()(int64_t index) const {
  MS_CHECK(index >= 0 && static_cast<uint64_t>(index) < size_, "place outside the permutation");
  auto value = static_cast<uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

std::vector<int64_t> apportion(const std::vector<double>& weights, int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> counts(weights.size());
  std::vector<std::pair<double, size_t>> remainders;
  int64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(total);
    if (weights[i] == 0) continue;
    counts[i] = std::max<int64_t>(1, static_cast<int64_t>(std::floor(exact)));
    given += counts[i];
    remainders.emplace_back(static_cast<double>(counts[i]) - exact,
                            i);  // smallest first: most owed
  }
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; given < total; i = (i + 1) % remainders.size()) {
    ++counts[remainders[i].second];
    ++given;
  }
  while (given > total) {  // sources raised to one: the largest pays
    --*std::max_element(counts.begin(), counts.end());
    --given;
  }
  return counts;
}

SourceDraw::SourceDraw(const std::vector<double>& weights, uint64_t seed) : seed_(seed) {
  MS_CHECK(!weights.empty() && weights.size() <= 1024, "1 to 1,024 sources");
  for (const double weight : weights) MS_CHECK(weight >= 0, "weights are not negative");
  MS_CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) > 0, "some weight is positive");
  const std::vector<int64_t> counts = apportion(weights, kCycle);
  std::partial_sum(counts.begin(), counts.end(), std::back_inserter(ends_));
}

int SourceDraw::operator()(uint64_t sample) const {
  if (ends_.size() == 1) return 0;
  const uint64_t cycle = sample >> kCycleBits;
  const auto block = static_cast<uint32_t>(sample >> 6);  // 2^38 samples have their own
  const KeyedPermutation shuffle(64, seed_, OrderPurpose::kMixture, block,
                                 static_cast<uint32_t>(sample >> 38));
  const auto place =
      static_cast<uint32_t>((sample & (kCycle - 1) & ~uint64_t{63}) |
                            static_cast<uint64_t>(shuffle(static_cast<int64_t>(sample & 63))));
  // Bit b of the value is bit kCycleBits - 1 - b of the place (van der Corput), flipped by a bit
  // that is keyed by the value's higher bits.
  uint32_t prefix = 1;  // a leading one tells prefixes of different lengths apart
  uint32_t value = 0;
  for (int b = 0; b < kCycleBits; ++b) {
    const uint32_t bit = place >> b & 1;
    const PhiloxCounter bits =
        philox4x32({prefix, static_cast<uint32_t>(OrderPurpose::kMixture) << 8 | 0x80,
                    static_cast<uint32_t>(cycle), static_cast<uint32_t>(cycle >> 32)},
                   philox_key(seed_));
    value = value << 1 | (bit ^ (bits[0] & 1));
    prefix = prefix << 1 | bit;
  }
  return static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), int64_t{value}) -
                          ends_.begin());
}

}  // namespace mainspring

#include "mainspring/env/env_random.h"

#include <bit>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

/// FNV-1a: a name as a number that every machine agrees on.
uint32_t name_hash(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619u;
  }
  return hash;
}

constexpr int kFeistelRounds = 6;

}  // namespace

EnvRandom::EnvRandom(std::string_view purpose, uint64_t seed, uint64_t index)
    : key_(philox_key(seed)),
      counter_{0, name_hash(purpose), static_cast<uint32_t>(index),
               static_cast<uint32_t>(index >> 32)} {}

uint32_t EnvRandom::next() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

int64_t EnvRandom::below(int64_t bound) {
  MS_CHECK(bound >= 1 && bound < (int64_t{1} << 32), "a bound of a draw is out of range");
  // The product's upper half is the draw; its lower half tells the few values that would give some
  // draws one more chance than others (Lemire 2019, arXiv:1805.10941).
  const auto n = static_cast<uint32_t>(bound);
  const uint32_t threshold = (0u - n) % n;
  while (true) {
    const uint64_t product = uint64_t{next()} * n;
    if (static_cast<uint32_t>(product) >= threshold) return static_cast<int64_t>(product >> 32);
  }
}

std::vector<int64_t> EnvRandom::distinct(int64_t count, int64_t first, int64_t last) {
  const int64_t size = last - first + 1;
  MS_CHECK(size >= count && size <= (int64_t{1} << 20), "cannot draw that many different values");
  std::vector<int64_t> all(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) all[i] = first + i;
  for (int64_t i = 0; i < count; ++i) std::swap(all[i], all[i + below(size - i)]);
  all.resize(static_cast<size_t>(count));
  return all;
}

int64_t task_in_order(std::string_view purpose, int64_t num_tasks, uint64_t seed, uint64_t index) {
  MS_CHECK(num_tasks >= 1, "an order needs tasks");
  const auto size = static_cast<uint64_t>(num_tasks);
  const uint64_t round = index / size;
  // A Feistel network over an even number of bits is a bijection of [0, 4^half); walking it until
  // it lands inside [0, size) is one of that.
  const int half = std::max(3, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const PhiloxKey key = philox_key(seed);
  uint64_t place = index % size;
  do {
    uint64_t left = place >> half;
    uint64_t right = place & mask;
    for (uint32_t r = 0; r < kFeistelRounds; ++r) {
      // The round of tasks may have 64 bits; its upper ones share a word with the number of the
      // network's round, far beyond any run's length.
      const PhiloxCounter bits =
          philox4x32({static_cast<uint32_t>(right), name_hash(purpose) ^ 0x9E3779B9u,
                      static_cast<uint32_t>(round), r + (static_cast<uint32_t>(round >> 32) << 3)},
                     key);
      left ^= bits[0] & mask;
      std::swap(left, right);
    }
    place = (left << half) | right;
  } while (place >= size);
  return static_cast<int64_t>(place);
}

}  // namespace mainspring

#include "mainspring/data/dedupe.h"

#include <algorithm>

namespace mainspring {
namespace {

constexpr size_t kWordsPerRun = 5;
constexpr size_t kBandHashes = 4;  // 16 bands: similar by half or more meet in one of them
constexpr size_t kBands = kMinHashes / kBandHashes;

// The finalizer of SplitMix64 (Steele et al. 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool is_word_byte(unsigned char c) {
  return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// FNV-1a of the word that starts at `at`, in lower case; moves `at` behind it.
uint64_t word_hash(std::string_view text, size_t& at) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; at < text.size() && is_word_byte(static_cast<unsigned char>(text[at])); ++at) {
    auto c = static_cast<unsigned char>(text[at]);
    if (c >= 'A' && c <= 'Z') c = static_cast<unsigned char>(c - 'A' + 'a');
    hash = (hash ^ c) * 0x100000001b3u;
  }
  return hash;
}

void add_run(uint64_t run, MinHash& least) {
  for (size_t i = 0; i < kMinHashes; ++i) {
    const uint64_t seed = 0x9e3779b97f4a7c15u * (i + 1);
    least[i] = std::min(least[i], static_cast<uint32_t>(mix(run ^ seed) >> 32));
  }
}

uint64_t band_key(const MinHash& hashes, size_t band) {
  uint64_t key = band + 1;
  for (size_t i = 0; i < kBandHashes; ++i) key = mix(key ^ hashes[band * kBandHashes + i]);
  return key;
}

}  // namespace

MinHash min_hash(std::string_view text) {
  MinHash least;
  least.fill(0xffffffffu);
  std::array<uint64_t, kWordsPerRun> words{};
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    if (!is_word_byte(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    std::rotate(words.begin(), words.begin() + 1, words.end());
    words.back() = word_hash(text, at);
    if (++count < kWordsPerRun) continue;
    uint64_t run = 0;
    for (const uint64_t word : words) run = mix(run ^ word);
    add_run(run, least);
  }
  if (count < kWordsPerRun) {
    uint64_t run = count;
    for (const uint64_t word : words) run = mix(run ^ word);
    add_run(run, least);
  }
  return least;
}

double similarity(const MinHash& a, const MinHash& b) {
  size_t equal = 0;
  for (size_t i = 0; i < kMinHashes; ++i) equal += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(kMinHashes);
}

bool Deduplicator::is_near(const MinHash& hashes) {
  for (size_t band = 0; band < kBands; ++band) {
    const auto found = bands_.find(band_key(hashes, band));
    if (found == bands_.end()) continue;
    for (const uint32_t other : found->second) {
      if (similarity(hashes, kept_[other]) >= threshold_) return true;
    }
  }
  return false;
}

Duplicate Deduplicator::add(const Digest128& text, const MinHash* hashes) {
  if (!texts_.insert(text).second) return Duplicate::kExact;
  if (threshold_ <= 0) return Duplicate::kNone;
  if (is_near(*hashes)) return Duplicate::kNear;
  const auto index = static_cast<uint32_t>(kept_.size());
  kept_.push_back(*hashes);
  for (size_t band = 0; band < kBands; ++band) bands_[band_key(*hashes, band)].push_back(index);
  return Duplicate::kNone;
}

}  // namespace mainspring

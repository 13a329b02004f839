// De-duplication: which documents of a corpus say what an earlier one has said.
//
// The one idea: a document is known by a checksum of its text, and by the 64 smallest hashes of its
// runs of five words, one per hash function (MinHash: two documents agree in one of them with the
// probability of their sets' Jaccard similarity). Documents that agree in a band of four are
// compared in all 64. The earliest document in input order stays, whatever the threads did.
// Source: Broder 1997, "On the resemblance and containment of documents"; bands: Leskovec et al.,
// "Mining of Massive Datasets", 3.4.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mainspring/io/checksum.h"

namespace mainspring {

inline constexpr size_t kMinHashes = 64;
using MinHash = std::array<uint32_t, kMinHashes>;

/// Words are runs of letters, digits and bytes above 0x7f, in lower case; fewer than five are one
/// run. Cost: about 0.1 us per word.
MinHash min_hash(std::string_view text);

/// Share of equal hashes: an estimate of the Jaccard similarity, off by about 0.06.
double similarity(const MinHash& a, const MinHash& b);

enum class Duplicate { kNone, kExact, kNear };

/// Asked about every document in input order. Memory: some 50 bytes a document, 600 with near
/// duplicates. Threads: one.
class Deduplicator {
 public:
  /// `threshold` of the similarity from which a document is a near duplicate; 0: exact ones only.
  explicit Deduplicator(double threshold) : threshold_(threshold) {}

  /// Notes the document unless it repeats one noted before. `hashes` may be null if the threshold
  /// is 0.
  Duplicate add(const Digest128& text, const MinHash* hashes);

 private:
  bool is_near(const MinHash& hashes);

  struct DigestHash {
    size_t operator()(const Digest128& d) const { return static_cast<size_t>(d.low); }
  };

  double threshold_;
  std::unordered_set<Digest128, DigestHash> texts_;
  std::vector<MinHash> kept_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> bands_;  // to indices of kept_
};

}  // namespace mainspring

// CharSet: a set of Unicode characters as sorted ranges.
// Internal to sample/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

inline constexpr int32_t kLastChar = 0x10FFFF;

/// Sorted, apart and not adjacent: equal sets have equal ranges. Halves of surrogate pairs are no
/// characters and in no set.
class CharSet {
 public:
  CharSet() = default;
  /// The characters first to last.
  CharSet(int32_t first, int32_t last) { add(first, last); }
  static CharSet all() { return {0, kLastChar}; }
  static CharSet of(std::string_view ascii);

  void add(int32_t first, int32_t last);
  bool is_empty() const { return ranges_.empty(); }
  bool has(int32_t c) const;
  const std::vector<std::pair<int32_t, int32_t>>& ranges() const& { return ranges_; }
  void ranges() && = delete;  // they would be gone

  friend CharSet operator|(const CharSet& a, const CharSet& b);
  friend CharSet operator&(const CharSet& a, const CharSet& b);
  /// All others.
  CharSet operator~() const;
  friend bool operator==(const CharSet&, const CharSet&) = default;
  friend auto operator<=>(const CharSet&, const CharSet&) = default;

 private:
  std::vector<std::pair<int32_t, int32_t>> ranges_;
};

/// The characters of UTF-8. Precondition: it is valid (JSON texts are).
std::vector<int32_t> characters_of(std::string_view utf8);

}  // namespace mainspring

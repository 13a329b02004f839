#include "mainspring/sample/char_set.h"

#include <algorithm>

namespace mainspring {
namespace {

constexpr int32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

}  // namespace

CharSet CharSet::of(std::string_view ascii) {
  CharSet set;
  for (const char c : ascii) set.add(static_cast<unsigned char>(c), static_cast<unsigned char>(c));
  return set;
}

void CharSet::add(int32_t first, int32_t last) {
  if (first < kFirstSurrogate && last > kLastSurrogate) {
    add(first, kFirstSurrogate - 1);
    add(kLastSurrogate + 1, last);
    return;
  }
  if (first >= kFirstSurrogate && first <= kLastSurrogate) first = kLastSurrogate + 1;
  if (last >= kFirstSurrogate && last <= kLastSurrogate) last = kFirstSurrogate - 1;
  if (first > last) return;
  // Ranges that overlap or touch become one.
  auto at = ranges_.begin();
  while (at != ranges_.end() && at->second < first - 1) ++at;
  auto end = at;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->second);
    ++end;
  }
  at = ranges_.erase(at, end);
  ranges_.insert(at, {first, last});
}

bool CharSet::has(int32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const auto& range) { return range.first <= c && c <= range.second; });
}

CharSet operator|(const CharSet& a, const CharSet& b) {
  CharSet both = a;
  for (const auto& [first, last] : b.ranges_) both.add(first, last);
  return both;
}

CharSet operator&(const CharSet& a, const CharSet& b) {
  CharSet common;
  for (size_t i = 0, j = 0; i < a.ranges_.size() && j < b.ranges_.size();) {
    const auto& [a_first, a_last] = a.ranges_[i];
    const auto& [b_first, b_last] = b.ranges_[j];
    const int32_t first = std::max(a_first, b_first);
    const int32_t last = std::min(a_last, b_last);
    if (first <= last) common.ranges_.emplace_back(first, last);
    a_last < b_last ? ++i : ++j;
  }
  return common;
}

CharSet CharSet::operator~() const {
  CharSet others;
  int32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    others.add(next, first - 1);
    next = last + 1;
  }
  others.add(next, kLastChar);
  return others;
}

std::vector<int32_t> characters_of(std::string_view utf8) {
  std::vector<int32_t> characters;
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      characters.push_back(byte);
    } else if (byte < 0xC0) {
      if (!characters.empty()) characters.back() = characters.back() << 6 | (byte & 0x3F);
    } else {
      characters.push_back(byte < 0xE0 ? byte & 0x1F : byte < 0xF0 ? byte & 0x0F : byte & 0x07);
    }
  }
  return characters;
}

}  // namespace mainspring

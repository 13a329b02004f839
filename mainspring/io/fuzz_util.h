// Damaged copies of a small file, for tests of parsers: every truncation, and many random changes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace mainspring {

/// Calls `parse` with every proper prefix of `bytes`.
inline void for_each_truncation(const std::string& bytes,
                                const std::function<void(const std::string&)>& parse) {
  for (size_t size = 0; size < bytes.size(); ++size) parse(bytes.substr(0, size));
}

/// Calls `parse` with `count` copies of `bytes`, each with one to four bytes changed: to a random
/// value, to an extreme one, or one bit. The same copies on every machine.
inline void for_each_damage(const std::string& bytes, int count,
                            const std::function<void(const std::string&)>& parse) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  const auto next = [&state] {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du >> 16;
  };
  for (int i = 0; i < count; ++i) {
    std::string copy = bytes;
    const uint64_t changes = 1 + next() % 4;
    for (uint64_t change = 0; change < changes; ++change) {
      char& byte = copy[next() % copy.size()];
      switch (next() % 4) {
        case 0:
          byte = static_cast<char>(next());
          break;
        case 1:
          byte = static_cast<char>(0xff);
          break;
        case 2:
          byte = static_cast<char>(0x7f);
          break;
        default:
          byte = static_cast<char>(byte ^ (1 << next() % 8));
      }
    }
    parse(copy);
  }
}

}  // namespace mainspring

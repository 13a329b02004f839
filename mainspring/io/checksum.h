// Checksums: 128-bit XXH3, to notice damage and to name content. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

/// A 128-bit hash value.
struct Digest128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Digest128&, const Digest128&) = default;
  /// 32 lower-case hex digits, high half first (as `xxh128sum` prints).
  std::string hex() const;
  /// Errors: invalid argument unless `text` is 32 hex digits.
  static Result<Digest128> parse(std::string_view text);
};

/// XXH3-128 with seed 0. Cost: tens of GB/s from cache.
Digest128 checksum128(const void* data, size_t size);

/// The same over pieces: equal to checksum128 of their concatenation. Threads: one.
class Checksum128 {
 public:
  Checksum128();
  ~Checksum128();
  Checksum128(const Checksum128&) = delete;
  Checksum128& operator=(const Checksum128&) = delete;
  void update(const void* data, size_t size);
  Digest128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainspring

// Page-aligned, pre-touched memory with huge pages asked for, and the meter that counts it.
//
// The one idea: first touch of fresh memory is slow on virtual machines, so memory is touched once
// when it is taken and then reused (docs/design.md, section 3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "mainspring/base/status.h"

namespace mainspring::cpu {

/// Bytes held by one executor, now and at most. Used from one thread at a time.
class MemoryMeter {
 public:
  void add(int64_t bytes) {
    current_ += bytes;
    peak_ = std::max(peak_, current_);
  }
  int64_t current() const { return current_; }
  int64_t peak() const { return peak_; }

 private:
  int64_t current_ = 0;
  int64_t peak_ = 0;
};

/// Bytes this process may still take: the machine's available memory, or what the container's limit
/// leaves.
int64_t available_memory_bytes();

/// Zeroed memory of its own mapping.
class Memory {
 public:
  Memory() = default;
  /// Errors: resource exhausted with the size asked for.
  static Result<Memory> allocate(int64_t bytes, std::shared_ptr<MemoryMeter> meter);
  ~Memory();
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(meter_, other.meter_);
  }

  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  std::shared_ptr<MemoryMeter> meter_;
};

}  // namespace mainspring::cpu

// Zeroed memory with huge pages asked for, and the meter that counts it.
//
// The one idea: first touch of fresh memory is slow on virtual machines, so there is little of it:
// the arena is touched once and reused, and what is kept beside it comes from large mappings on
// huge pages (docs/design.md, section 3).
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

/// Pages of one anonymous mapping, a whole number of huge pages if large.
class Mapping {
 public:
  /// Errors: resource exhausted with the size asked for.
  static Result<std::shared_ptr<Mapping>> create(int64_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_; }

 private:
  Mapping(std::byte* data, int64_t size) : data_(data), size_(size) {}
  std::byte* data_;
  int64_t size_;
};

/// Zeroed memory: a mapping or a part of one, counted while it is held.
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<Mapping> mapping, std::byte* data, int64_t size,
         std::shared_ptr<MemoryMeter> meter)
      : mapping_(std::move(mapping)), data_(data), size_(size), meter_(std::move(meter)) {
    if (meter_) meter_->add(size_);
  }
  ~Memory() {
    if (meter_) meter_->add(-size_);
  }
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
    std::swap(mapping_, other.mapping_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(meter_, other.meter_);
  }

  std::shared_ptr<Mapping> mapping_;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  std::shared_ptr<MemoryMeter> meter_;
};

/// Where an executor's memory comes from. Used from one thread at a time.
class MemoryPool {
 public:
  explicit MemoryPool(std::shared_ptr<MemoryMeter> meter) : meter_(std::move(meter)) {}

  /// A mapping of its own, touched. Errors: resource exhausted with the size asked for.
  Result<Memory> allocate_touched(int64_t bytes);

  /// Untouched: whoever fills it does so on all threads. Small pieces are cut from shared mappings,
  /// so that they lie on huge pages too; a mapping goes when its last piece does. Errors: resource
  /// exhausted with the size asked for.
  Result<Memory> allocate(int64_t bytes);

  const MemoryMeter& meter() const { return *meter_; }

 private:
  std::shared_ptr<MemoryMeter> meter_;
  std::shared_ptr<Mapping> shared_;  // pieces are cut from it
  int64_t used_ = 0;                 // of shared_
};

}  // namespace mainspring::cpu

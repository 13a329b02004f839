// What the tests of attention and row operations share: contexts per path, random values,
// comparisons.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "mainspring/base/bf16.h"
#include "mainspring/base/thread_pool.h"
#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/cpu/kernels/table.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {

/// Values of the compute dtype with their f64 images; the storage is exactly the given size, so
/// that a sanitizer sees a read beyond it.
class Values {
 public:
  Values() = default;
  Values(DType dtype, int64_t n) : dtype_(dtype), n_(n), bytes_(static_cast<size_t>(n) * width()) {}

  /// Uniform in [-scale, scale), a function of the seed.
  static Values random(DType dtype, int64_t n, uint64_t seed, float scale) {
    Values values(dtype, n);
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 0x1234567;
    for (int64_t i = 0; i < n; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto unit = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
      values.set(i, unit * scale);
    }
    return values;
  }

  int64_t size() const { return n_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const void* at(int64_t i) const { return bytes_.data() + static_cast<size_t>(i) * width(); }
  void* at(int64_t i) { return bytes_.data() + static_cast<size_t>(i) * width(); }

  // Out of line: gcc 12 follows a constant dtype into the other branch and warns of it.
  [[gnu::noinline]] void set(int64_t i, float x) {
    if (dtype_ == DType::kBF16) {
      const bf16 b = to_bf16(x);
      std::memcpy(at(i), &b, sizeof(b));
    } else {
      std::memcpy(at(i), &x, sizeof(x));
    }
  }
  double get(int64_t i) const {
    if (dtype_ == DType::kBF16) {
      bf16 b;
      std::memcpy(&b, at(i), sizeof(b));
      return to_f32(b);
    }
    float x;
    std::memcpy(&x, at(i), sizeof(x));
    return x;
  }

  std::vector<double> to_f64() const {
    std::vector<double> out;
    for (int64_t i = 0; i < n_; ++i) out.push_back(get(i));
    return out;
  }

  friend bool operator==(const Values&, const Values&) = default;

 private:
  size_t width() const { return dtype_ == DType::kBF16 ? 2 : 4; }
  DType dtype_ = DType::kF32;
  int64_t n_ = 0;
  std::vector<char> bytes_;
};

/// Largest relative error of one rounding to the compute dtype.
inline double unit_roundoff(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24; }

/// The paths that this processor can run, the scalar one first.
inline std::vector<Isa> test_paths() {
  std::vector<Isa> paths;
  for (const Isa isa : supported_isas()) paths.insert(paths.begin(), isa);
  return paths;
}

/// Whole sequences packed one after the other, each starting on an even row.
struct PackedTable {
  std::vector<Segment> segments;
  std::vector<int32_t> picked;
  RowTable table;

  explicit PackedTable(const std::vector<int32_t>& lengths) {
    int32_t row = 0;
    for (const int32_t length : lengths) {
      Segment segment;
      segment.row_begin = row;
      segment.num_rows = length;
      segments.push_back(segment);
      row += (length + 1) / 2 * 2;
    }
    table.num_rows = row;
    table.segments = segments;
  }
  PackedTable(const PackedTable&) = delete;
  PackedTable& operator=(const PackedTable&) = delete;
};

inline std::vector<char> scratch_of(size_t bytes) { return std::vector<char>(bytes + 64); }
inline void* aligned(std::vector<char>& scratch) {
  const auto address = reinterpret_cast<uintptr_t>(scratch.data());
  return reinterpret_cast<void*>((address + 63) / 64 * 64);
}

}  // namespace mainspring::cpu

// CpuBuffer: host memory of one tensor, with the layouts that kernels derive from it.
//
// The one idea: a linear weight is stored once as (out, in) and read as packed panels; the panels
// are made at first use, kept, and made again after mark_changed(), so every graph that binds the
// buffer shares them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "mainspring/exec/cpu/memory.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/executor.h"

namespace mainspring::cpu {

/// What a kernel wants of a parameter.
enum class Layout { kForward, kInputGrad, kVector };  // kVector: values in the compute dtype
inline constexpr size_t kNumLayouts = 3;

class CpuBuffer final : public Buffer {
 public:
  /// Zeroed memory. Precondition: the allocation succeeds (MS_CHECK otherwise).
  CpuBuffer(DType dtype, std::vector<int64_t> shape, std::shared_ptr<MemoryPool> pool);
  /// Somebody else's read-only memory.
  CpuBuffer(BorrowedTensor tensor, std::shared_ptr<MemoryPool> pool);

  DType dtype() const override { return dtype_; }
  const std::vector<int64_t>& shape() const override { return shape_; }
  int64_t size_bytes() const override { return size_bytes_; }
  void* data() override { return is_borrowed_ ? nullptr : memory_.data(); }
  const void* data() const override { return data_; }
  Status own() override;
  void mark_changed() override { ++version_; }

  /// The tensor as a matrix: a vector of n is (1, n).
  WeightView view() const;

  /// The layout for context's compute dtype, made now if stale; with `paired`, the other layout of
  /// a matrix is made in the same pass over the stored values, for whoever asks for it next.
  const void* layout(const Context& context, Layout layout, bool paired = false);

  /// Makes a layout into `destination` without keeping it.
  void make_layout(const Context& context, Layout layout, void* destination) const;
  static int64_t layout_bytes(const Context& context, Layout layout, int64_t out, int64_t in);

 private:
  struct Derived {
    Memory memory;
    uint64_t version = 0;  // 0: never made
  };

  Derived& derived(const Context& context, Layout layout) {
    return derived_[context.compute == DType::kBF16 ? 0 : 1][static_cast<size_t>(layout)];
  }
  /// Memory to make a stale layout in.
  std::byte* renew(const Context& context, Layout layout);

  DType dtype_;
  std::vector<int64_t> shape_;
  int64_t size_bytes_;
  bool is_borrowed_ = false;  // read only, even once it owns its bytes
  Memory memory_;
  const void* data_;
  const float* aux_ = nullptr;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<MemoryPool> pool_;
  uint64_t version_ = 1;
  std::array<std::array<Derived, kNumLayouts>, 2> derived_;  // by compute dtype (bf16, f32), layout
};

}  // namespace mainspring::cpu

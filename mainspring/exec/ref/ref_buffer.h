// RefBuffer: the reference's memory of one tensor, its own or borrowed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "mainspring/exec/executor.h"

namespace mainspring::ref {

struct MemoryMeter {
  int64_t current = 0;
  int64_t peak = 0;
};

class RefBuffer final : public Buffer {
 public:
  /// Zeroed.
  RefBuffer(DType dtype, std::vector<int64_t> shape, std::shared_ptr<MemoryMeter> meter)
      : dtype_(dtype),
        shape_(std::move(shape)),
        meter_(std::move(meter)),
        bytes_(static_cast<size_t>(size_bytes())),
        data_(bytes_.data()) {
    meter_->current += size_bytes();
    meter_->peak = std::max(meter_->peak, meter_->current);
  }
  explicit RefBuffer(BorrowedTensor tensor)
      : dtype_(tensor.dtype),
        shape_(std::move(tensor.shape)),
        data_(tensor.data),
        aux_(tensor.aux),
        owner_(std::move(tensor.owner)) {}
  ~RefBuffer() override {
    if (meter_ != nullptr) meter_->current -= size_bytes();
  }

  DType dtype() const override { return dtype_; }
  const std::vector<int64_t>& shape() const override { return shape_; }
  int64_t size_bytes() const override {
    return dtype_bytes(dtype_, Shape{shape_}.num_elements({}));
  }
  void* data() override { return meter_ != nullptr ? bytes_.data() : nullptr; }
  const void* data() const override { return data_; }
  void mark_changed() override {}  // nothing is derived from the bytes
  const float* aux() const { return aux_; }

 private:
  DType dtype_;
  std::vector<int64_t> shape_;
  std::shared_ptr<MemoryMeter> meter_;  // null for borrowed memory
  std::vector<std::byte> bytes_;
  const void* data_;
  const float* aux_ = nullptr;
  std::shared_ptr<const void> owner_;
};

}  // namespace mainspring::ref

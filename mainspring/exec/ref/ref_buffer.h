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
    count_bytes();
  }
  RefBuffer(BorrowedTensor tensor, std::shared_ptr<MemoryMeter> meter)
      : dtype_(tensor.dtype),
        shape_(std::move(tensor.shape)),
        meter_(std::move(meter)),
        is_borrowed_(true),
        data_(tensor.data),
        aux_(tensor.aux),
        owner_(std::move(tensor.owner)) {}
  ~RefBuffer() override { meter_->current -= static_cast<int64_t>(bytes_.size()); }

  DType dtype() const override { return dtype_; }
  const std::vector<int64_t>& shape() const override { return shape_; }
  int64_t size_bytes() const override {
    return dtype_bytes(dtype_, Shape{shape_}.num_elements({}));
  }
  void* data() override { return is_borrowed_ ? nullptr : bytes_.data(); }
  const void* data() const override { return data_; }
  Status own() override {
    if (!is_borrowed_ || !bytes_.empty()) return {};
    const auto* from = static_cast<const std::byte*>(data_);
    bytes_.assign(from, from + size_bytes());
    data_ = bytes_.data();
    owner_.reset();
    count_bytes();
    return {};
  }
  void mark_changed() override {}  // nothing is derived from the bytes
  const float* aux() const { return aux_; }

 private:
  void count_bytes() {
    meter_->current += static_cast<int64_t>(bytes_.size());
    meter_->peak = std::max(meter_->peak, meter_->current);
  }

  DType dtype_;
  std::vector<int64_t> shape_;
  std::shared_ptr<MemoryMeter> meter_;
  bool is_borrowed_ = false;  // read only, even once it owns its bytes
  std::vector<std::byte> bytes_;
  const void* data_;
  const float* aux_ = nullptr;
  std::shared_ptr<const void> owner_;
};

}  // namespace mainspring::ref

#include "mainspring/exec/cpu/cpu_buffer.h"

#include <cstring>

#include "mainspring/base/check.h"

namespace mainspring::cpu {
namespace {

int64_t product(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

}  // namespace

CpuBuffer::CpuBuffer(DType dtype, std::vector<int64_t> shape, std::shared_ptr<MemoryPool> pool)
    : dtype_(dtype),
      shape_(std::move(shape)),
      size_bytes_(dtype_bytes(dtype, product(shape_))),
      pool_(std::move(pool)) {
  auto memory = pool_->allocate(size_bytes_);
  MS_CHECK(memory.ok(), memory.status().to_string());
  memory_ = std::move(memory).value();
  data_ = memory_.data();
}

CpuBuffer::CpuBuffer(BorrowedTensor tensor, std::shared_ptr<MemoryPool> pool)
    : dtype_(tensor.dtype),
      shape_(std::move(tensor.shape)),
      size_bytes_(dtype_bytes(dtype_, product(shape_))),
      is_borrowed_(true),
      data_(tensor.data),
      aux_(tensor.aux),
      owner_(std::move(tensor.owner)),
      pool_(std::move(pool)) {}

// Derived layouts stay: the values are the same.
Status CpuBuffer::own() {
  if (!is_borrowed_ || memory_.data() != nullptr) return {};
  MS_ASSIGN_OR_RETURN(memory_, pool_->allocate(size_bytes_));
  std::memcpy(memory_.data(), data_, static_cast<size_t>(size_bytes_));
  data_ = memory_.data();
  owner_.reset();
  return {};
}

WeightView CpuBuffer::view() const {
  const int64_t in = shape_.empty() ? 1 : shape_.back();
  return {.dtype = dtype_,
          .data = data_,
          .out = in == 0 ? 0 : product(shape_) / in,
          .in = in,
          .aux = aux_};
}

int64_t CpuBuffer::layout_bytes(const Context& context, Layout layout, int64_t out, int64_t in) {
  switch (layout) {
    case Layout::kForward:
      return static_cast<int64_t>(packed_forward_bytes(context, out, in));
    case Layout::kInputGrad:
      return static_cast<int64_t>(packed_input_grad_bytes(context, out, in));
    case Layout::kVector:
      return out * dtype_bytes(context.compute, in);
  }
  return 0;
}

void CpuBuffer::make_layout(const Context& context, Layout layout, void* destination) const {
  const WeightView weight = view();
  switch (layout) {
    case Layout::kForward:
      pack_forward(context, weight, destination);
      return;
    case Layout::kInputGrad:
      pack_input_grad(context, weight, destination);
      return;
    case Layout::kVector:
      for (int64_t row = 0; row < weight.out; ++row) {
        dequantise_row(
            context, weight, row,
            static_cast<std::byte*>(destination) + row * dtype_bytes(context.compute, weight.in));
      }
      return;
  }
}

std::byte* CpuBuffer::renew(const Context& context, Layout layout) {
  Derived& derived = this->derived(context, layout);
  derived.version = version_;
  if (derived.memory.data() == nullptr) {
    const WeightView weight = view();
    auto memory = pool_->allocate(layout_bytes(context, layout, weight.out, weight.in));
    MS_CHECK(memory.ok(), memory.status().to_string());
    derived.memory = std::move(memory).value();
  }
  return derived.memory.data();
}

const void* CpuBuffer::layout(const Context& context, Layout layout, bool paired) {
  Derived& wanted = derived(context, layout);
  if (wanted.version == version_) return wanted.memory.data();
  const Layout other = layout == Layout::kForward ? Layout::kInputGrad : Layout::kForward;
  if (paired && derived(context, other).version != version_) {
    pack_weight(context, view(), renew(context, Layout::kForward),
                renew(context, Layout::kInputGrad));
  } else {
    make_layout(context, layout, renew(context, layout));
  }
  return wanted.memory.data();
}

}  // namespace mainspring::cpu

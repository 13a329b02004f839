#include "mainspring/exec/cpu/memory.h"

#include <sys/mman.h>

#include <string>

namespace mainspring::cpu {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;

}  // namespace

Result<Memory> Memory::allocate(int64_t bytes, std::shared_ptr<MemoryMeter> meter) {
  Memory memory;
  if (bytes <= 0) return memory;
  const int64_t size = (bytes + kPage - 1) / kPage * kPage;
  void* data = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted("no memory for " + std::to_string(size >> 20) + " MiB");
  }
  // Advice only: a kernel without huge pages ignores it.
  if (size >= kHugePage) madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = size;
  memory.meter_ = std::move(meter);
  for (int64_t i = 0; i < size; i += kPage) memory.data_[i] = std::byte{0};
  if (memory.meter_) memory.meter_->add(size);
  return memory;
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  munmap(data_, static_cast<size_t>(size_));
  if (meter_) meter_->add(-size_);
}

}  // namespace mainspring::cpu

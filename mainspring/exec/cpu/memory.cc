#include "mainspring/exec/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace mainspring::cpu {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;

// The number in a one-line file; -1 if there is none ("max", or no such file).
int64_t number_in(const char* path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

int64_t available_memory_bytes() {
  int64_t available = INT64_MAX;
  std::ifstream info("/proc/meminfo");
  std::string key;
  std::string rest;
  while (info >> key && std::getline(info, rest)) {
    if (key == "MemAvailable:") available = std::stoll(rest) * 1024;
  }
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0) available = std::min(available, std::max<int64_t>(limit - used, 0));
  return available;
}

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

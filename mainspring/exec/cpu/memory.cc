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
constexpr int64_t kSharedMapping = 256 << 20;  // reserved; only what is used gets memory
constexpr int64_t kMostPiece = 4 << 20;
constexpr int64_t kPieceAlign = 64;

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

Result<std::shared_ptr<Mapping>> Mapping::create(int64_t bytes) {
  const int64_t page = bytes >= kHugePage ? kHugePage : kPage;
  const int64_t size = (bytes + page - 1) / page * page;
  // Room to start at a huge page.
  const int64_t room = page == kHugePage ? size + kHugePage : size;
  void* data = mmap(nullptr, static_cast<size_t>(room), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted("no memory for " + std::to_string(size >> 20) + " MiB");
  }
  auto* begin = static_cast<std::byte*>(data);
  if (page == kHugePage) {
    const int64_t over = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % kHugePage);
    const int64_t front = over == 0 ? 0 : kHugePage - over;
    if (front > 0) munmap(begin, static_cast<size_t>(front));
    munmap(begin + front + size, static_cast<size_t>(room - front - size));
    begin += front;
    // Advice only: a kernel without huge pages ignores it.
    madvise(begin, static_cast<size_t>(size), MADV_HUGEPAGE);
  }
  return std::shared_ptr<Mapping>(new Mapping(begin, size));
}

Mapping::~Mapping() { munmap(data_, static_cast<size_t>(size_)); }

Result<Memory> MemoryPool::allocate_touched(int64_t bytes) {
  if (bytes <= 0) return Memory();
  MS_ASSIGN_OR_RETURN(auto mapping, Mapping::create(bytes));
  std::byte* data = mapping->data();
  const int64_t size = mapping->size_bytes();
  for (int64_t i = 0; i < size; i += kPage) data[i] = std::byte{0};
  return Memory(std::move(mapping), data, size, meter_);
}

Result<Memory> MemoryPool::allocate(int64_t bytes) {
  if (bytes <= 0) return Memory();
  const int64_t size = (bytes + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
  if (size > kMostPiece) {
    MS_ASSIGN_OR_RETURN(auto mapping, Mapping::create(size));
    std::byte* data = mapping->data();
    return Memory(std::move(mapping), data, size, meter_);
  }
  if (shared_ == nullptr || used_ + size > shared_->size_bytes()) {
    MS_ASSIGN_OR_RETURN(shared_, Mapping::create(kSharedMapping));
    used_ = 0;
  }
  std::byte* data = shared_->data() + used_;
  used_ += size;
  return Memory(shared_, data, size, meter_);
}

}  // namespace mainspring::cpu

// operator new with a counter, in a unit of its own so that no caller inlines it.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace mainspring::test {
std::atomic<int64_t> num_allocations{0};
}  // namespace mainspring::test

void* operator new(size_t size) {
  mainspring::test::num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#include "mainspring/sample/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

/// splitmix64's finisher (Steele et al. 2014): every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t hash_page(uint64_t parent, std::span<const int32_t> tokens) {
  uint64_t hash = mix(parent + 0x9e3779b97f4a7c15ull);
  for (const int32_t token : tokens)
    hash = mix(hash + static_cast<uint32_t>(token) + 0x9e3779b97f4a7c15ull);
  return hash;
}

/// Places of pages have the top bit, roots have not.
constexpr uint64_t kPageBit = uint64_t{1} << 63;

}  // namespace

uint64_t KvPool::weights_key(int32_t adapter, uint64_t base_version, uint64_t adapter_version) {
  const uint64_t hash =
      mix(mix(mix(static_cast<uint32_t>(adapter) + 1ull) + base_version) + adapter_version);
  return hash & ~kPageBit;
}

Result<std::unique_ptr<KvPool>> KvPool::create(Executor& executor, const KvPoolOptions& options) {
  if (options.layers < 1 || options.row_elements < 1 || options.num_pages < 1) {
    return invalid_argument("a cache needs layers, a row width and pages of at least 1, got " +
                            std::to_string(options.layers) + ", " +
                            std::to_string(options.row_elements) + ", " +
                            std::to_string(options.num_pages));
  }
  std::unique_ptr<KvPool> pool(new KvPool());
  pool->dtype_ = options.dtype;
  pool->row_elements_ = options.row_elements;
  pool->next_prefix_ = kPageBit;
  const std::vector<int64_t> shape = {int64_t{options.num_pages} * kPageTokens,
                                      options.row_elements};
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    for (std::vector<void*>* pointers : {&pool->keys_, &pool->values_}) {
      pool->buffers_.push_back(executor.allocate(options.dtype, shape));
      pointers->push_back(pool->buffers_.back()->data());
    }
  }
  pool->pages_.resize(static_cast<size_t>(options.num_pages));
  for (int32_t page = options.num_pages - 1; page >= 0; --page) pool->free_.push_back(page);
  pool->published_.reserve(static_cast<size_t>(options.num_pages));
  return pool;
}

int32_t KvPool::allocate() {
  if (free_.empty() && !idle_.empty()) forget(idle_.front());
  if (free_.empty()) return -1;
  const int32_t page = free_.back();
  free_.pop_back();
  pages_[static_cast<size_t>(page)].holds = 1;
  return page;
}

void KvPool::retain(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  MS_CHECK(entry.holds > 0 || entry.published, "only a held or findable page can be held again");
  if (entry.holds == 0) idle_.erase(entry.idle_place);
  ++entry.holds;
}

void KvPool::release(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  MS_CHECK(entry.holds > 0, "a page was released more often than held");
  if (--entry.holds > 0) return;
  if (entry.published) {
    entry.idle_place = idle_.insert(idle_.end(), page);
  } else {
    free_.push_back(page);
  }
}

int32_t KvPool::find_page(Prefix parent, uint64_t hash, std::span<const int32_t> tokens) const {
  const auto [begin, end] = published_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Page& entry = pages_[static_cast<size_t>(it->second)];
    // Equal parents are the same chain of tokens under the same weights, by induction.
    if (entry.parent == parent && std::equal(tokens.begin(), tokens.end(), entry.tokens.begin())) {
      return it->second;
    }
  }
  return -1;
}

KvPool::Found KvPool::find(Prefix parent, std::span<const int32_t> tokens) {
  MS_CHECK(tokens.size() == kPageTokens, "only full pages are shared");
  const int32_t page = find_page(parent, hash_page(parent, tokens), tokens);
  if (page < 0) return {};
  retain(page);
  return {page, pages_[static_cast<size_t>(page)].prefix};
}

KvPool::Found KvPool::publish(Prefix parent, std::span<const int32_t> tokens, int32_t page) {
  MS_CHECK(tokens.size() == kPageTokens, "only full pages are shared");
  Page& entry = pages_[static_cast<size_t>(page)];
  MS_CHECK(entry.holds > 0 && !entry.published, "a page is published once, by who holds it");
  const uint64_t hash = hash_page(parent, tokens);
  if (const int32_t known = find_page(parent, hash, tokens); known >= 0) {
    retain(known);
    release(page);
    return {known, pages_[static_cast<size_t>(known)].prefix};
  }
  entry.published = true;
  entry.prefix = next_prefix_++;
  entry.parent = parent;
  entry.hash = hash;
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  published_.emplace(hash, page);
  return {page, entry.prefix};
}

void KvPool::forget(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  const auto [begin, end] = published_.equal_range(entry.hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second != page) continue;
    published_.erase(it);
    break;
  }
  entry.published = false;
  if (entry.holds > 0) return;
  idle_.erase(entry.idle_place);
  free_.push_back(page);
}

void KvPool::forget_all() {
  for (int32_t page = 0; page < num_pages(); ++page) {
    if (pages_[static_cast<size_t>(page)].published) forget(page);
  }
}

void KvPool::copy_page(int32_t from, int32_t to) {
  const auto page_bytes = static_cast<size_t>(dtype_bytes(dtype_, kPageTokens * row_elements_));
  for (const std::vector<void*>* pointers : {&keys_, &values_}) {
    for (void* base : *pointers) {
      auto* bytes = static_cast<char*>(base);
      std::memcpy(bytes + static_cast<size_t>(to) * page_bytes,
                  bytes + static_cast<size_t>(from) * page_bytes, page_bytes);
    }
  }
}

KvView KvPool::view() const {
  KvView view;
  view.keys = keys_;
  view.values = values_;
  view.row_elements = row_elements_;
  return view;
}

}  // namespace mainspring

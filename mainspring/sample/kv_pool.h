// KvPool: the paged key/value cache, pages counted by reference and found again by what they hold.
//
// The one idea: a full page holds the keys and values of 64 tokens behind a known prefix, and those
// are a function of (weights, tokens so far) to the last bit (docs/exactness.md, rule 7). So a full
// page may be shared by every sequence with that prefix, is never written again, and needs no copy
// on write. Pages that nobody holds stay findable until their memory is needed, the least recently
// released first. Not for scheduling: who waits for pages is the sampler's business. Threads: one
// caller.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/exec/kv_view.h"

namespace mainspring {

/// In a sequence's list, in place of a page that no query sees any more.
inline constexpr int32_t kNoPage = -1;

struct KvPoolOptions {
  DType dtype = DType::kBF16;
  int64_t layers = 0;
  int64_t row_elements = 0;  // kv_row_elements()
  int32_t num_pages = 0;
};

class KvPool {
 public:
  /// A place in the tree of known prefixes: the root of one set of weights, or a published page.
  using Prefix = uint64_t;

  /// Cost: 2 * layers * num_pages * 64 * row_elements elements. Errors: invalid argument for sizes
  /// < 1.
  static Result<std::unique_ptr<KvPool>> create(Executor& executor, const KvPoolOptions& options);

  int32_t num_pages() const { return static_cast<int32_t>(pages_.size()); }
  /// Pages that allocate() can still give, findable ones that nobody holds included.
  int32_t num_free() const { return static_cast<int32_t>(free_.size() + idle_.size()); }

  /// A page held once, or -1. May forget an idle page.
  int32_t allocate();
  void retain(int32_t page);
  /// Gives up one hold; the page becomes free, or idle if it is published.
  void release(int32_t page);

  /// The empty prefix under weights named by `key`.
  static Prefix root(uint64_t key) { return key; }

  struct Found {
    int32_t page = -1;  // -1: not known; else held once more by the caller
    Prefix prefix = 0;
  };
  /// The page that continues `parent` by exactly these kPageTokens tokens.
  Found find(Prefix parent, std::span<const int32_t> tokens);

  /// Makes a full page findable under `parent`. Takes the caller's hold of `page` and gives back
  /// one of the page to use from now on: the same, or an equal one that was known already.
  Found publish(Prefix parent, std::span<const int32_t> tokens, int32_t page);

  /// Forgets every published page; held ones become private.
  void forget_all();

  /// Copies a page in every layer.
  void copy_page(int32_t from, int32_t to);

  /// The view for a run, without sequences.
  KvView view() const;

  /// Names weights for root(): distinct for distinct (adapter, versions) in practice (64-bit hash).
  static uint64_t weights_key(int32_t adapter, uint64_t base_version, uint64_t adapter_version);

 private:
  struct Page {
    int32_t holds = 0;
    bool published = false;
    Prefix prefix = 0;  // its own place
    Prefix parent = 0;
    uint64_t hash = 0;
    std::array<int32_t, kPageTokens> tokens{};
    std::list<int32_t>::iterator idle_place;  // valid when published and not held
  };

  KvPool() = default;
  int32_t find_page(Prefix parent, uint64_t hash, std::span<const int32_t> tokens) const;
  void forget(int32_t page);

  DType dtype_ = DType::kBF16;
  int64_t row_elements_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // keys and values of layer 0, of layer 1, ...
  std::vector<void*> keys_;
  std::vector<void*> values_;
  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  std::list<int32_t> idle_;  // published, not held; the first is forgotten first
  std::unordered_multimap<uint64_t, int32_t> published_;  // by hash of (parent, tokens)
  Prefix next_prefix_ = 0;
};

}  // namespace mainspring

#include "mainspring/sample/scheduler.h"

#include <algorithm>

#include "mainspring/base/check.h"

namespace mainspring {

/// Running samples and the siblings that will fork from them.
int64_t Scheduler::num_started() const {
  auto count = static_cast<int64_t>(running_.size());
  for (const SamplePtr& sample : running_) {
    if (sample->index == 0) count += static_cast<int64_t>(sample->request->waiting.size());
  }
  return count;
}

void Scheduler::admit() {
  while (!queue_.empty()) {
    SampleState& next = *queue_.front();
    const auto siblings = static_cast<int64_t>(next.request->waiting.size());
    // A request of more samples than the batch holds starts alone.
    if (!running_.empty() && num_started() + siblings >= options_.max_batch) return;
    if (!try_admit(next)) return;
    running_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
}

/// Takes the pages of known prefixes and checks that the others can be had.
bool Scheduler::try_admit(SampleState& sample) {
  sample.prefix = KvPool::root(options_.weights_key(sample.request->request));
  sample.num_published = 0;
  if (options_.share_prefixes && !sample.request->needs_scores()) {
    // The last token is always computed: its row gives the logits.
    const int64_t full = (sample.num_tokens() - 1) / kPageTokens;
    while (sample.num_published < full) {
      const KvPool::Found found =
          pool_.find(sample.prefix, sample.page_tokens(sample.num_published));
      if (found.page < 0) break;
      sample.pages.push_back(found.page);
      sample.prefix = found.prefix;
      ++sample.num_published;
    }
  }
  sample.num_cached = sample.num_published * kPageTokens;
  const int64_t needed = pages_of(sample.num_tokens()) - static_cast<int64_t>(sample.pages.size());
  // Each running sample may need a page soon; admitting into their room would only preempt.
  if (pool_.num_free() < needed + num_started()) {
    release(sample);
    return false;
  }
  stats_.shared_tokens += sample.num_cached;
  drop_behind_window(sample);
  return true;
}

bool Scheduler::ensure_pages(size_t index, int64_t positions) {
  while (static_cast<int64_t>(running_[index]->pages.size()) < pages_of(positions)) {
    const int32_t page = pool_.allocate();
    if (page >= 0) {
      running_[index]->pages.push_back(page);
      continue;
    }
    MS_CHECK(running_.size() > 1, "a request that fits the cache ran out of pages alone");
    preempt_youngest();
    if (index >= running_.size()) return false;
  }
  return true;
}

void Scheduler::preempt_youngest() {
  SamplePtr sample = std::move(running_.back());
  running_.pop_back();
  ++stats_.preemptions;
  release(*sample);
  if (sample->index == 0 && sample->request->needs_scores()) sample->request->num_scored = 0;
  queue_.push_front(std::move(sample));
}

void Scheduler::publish(SampleState& sample) {
  if (!options_.share_prefixes) return;
  while ((sample.num_published + 1) * kPageTokens <= sample.num_cached) {
    int32_t& page = sample.pages[static_cast<size_t>(sample.num_published)];
    const KvPool::Found kept =
        pool_.publish(sample.prefix, sample.page_tokens(sample.num_published), page);
    page = kept.page;
    sample.prefix = kept.prefix;
    ++sample.num_published;
  }
}

void Scheduler::drop_behind_window(SampleState& sample) {
  if (options_.window == 0) return;
  const int64_t first_seen = std::max<int64_t>(0, sample.num_cached - options_.window + 1);
  for (; sample.num_dropped < first_seen / kPageTokens; ++sample.num_dropped) {
    int32_t& page = sample.pages[static_cast<size_t>(sample.num_dropped)];
    pool_.release(page);
    page = kNoPage;
  }
}

std::vector<SampleState*> Scheduler::fork_waiting(SampleState& leader) {
  std::vector<SamplePtr> siblings = std::move(leader.request->waiting);
  leader.request->waiting.clear();
  std::vector<SampleState*> started;
  while (started.size() < siblings.size() && try_fork(leader, *siblings[started.size()])) {
    SamplePtr& sibling = siblings[started.size()];
    started.push_back(sibling.get());
    running_.push_back(std::move(sibling));
  }
  for (size_t i = siblings.size(); i > started.size(); --i) {
    queue_.push_front(std::move(siblings[i - 1]));
  }
  return started;
}

/// Full pages are shared, the begun one is copied: bits are the same either way.
bool Scheduler::try_fork(const SampleState& leader, SampleState& sibling) {
  if (static_cast<int64_t>(running_.size()) >= options_.max_batch) return false;
  const int64_t size = leader.request->prompt_size();
  const int64_t full = size / kPageTokens;
  const int64_t rest = size % kPageTokens;
  const int32_t last = rest > 0 ? pool_.allocate() : -1;
  if (rest > 0 && last < 0) return false;
  sibling.pages.assign(leader.pages.begin(), leader.pages.begin() + full);
  for (const int32_t page : sibling.pages) {
    if (page != kNoPage) pool_.retain(page);
  }
  sibling.num_dropped = leader.num_dropped;
  if (rest > 0) {
    pool_.copy_page(leader.pages[static_cast<size_t>(full)], last);
    sibling.pages.push_back(last);
  }
  sibling.num_cached = size;
  sibling.prefix = leader.prefix;
  sibling.num_published = leader.num_published;
  stats_.shared_tokens += size;
  return true;
}

/// The last pages first: a prefix is worth more than what follows it.
void Scheduler::release(SampleState& sample) {
  for (auto page = sample.pages.rbegin(); page != sample.pages.rend(); ++page) {
    if (*page != kNoPage) pool_.release(*page);
  }
  sample.pages.clear();
  sample.num_dropped = 0;
  sample.num_cached = 0;
  sample.num_published = 0;
  if (options_.on_release) options_.on_release(sample);
}

void Scheduler::remove_finished() {
  const auto is_finished = [](const SamplePtr& sample) { return sample->is_finished; };
  std::erase_if(queue_, is_finished);
  std::erase_if(running_, is_finished);
}

}  // namespace mainspring

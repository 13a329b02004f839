// Guesses from the sample's own tokens.
#include <algorithm>

#include "mainspring/sample/drafter.h"

namespace mainspring {

std::vector<int32_t> look_up(std::span<const int32_t> tokens, int32_t max_ngram, int32_t wanted) {
  const auto size = static_cast<int64_t>(tokens.size());
  for (int64_t n = std::min<int64_t>(max_ngram, size - 1); n >= 2; --n) {
    const auto tail = tokens.last(static_cast<size_t>(n));
    int64_t best = size;  // where the guesses begin
    for (int64_t begin = size - n - 1; begin >= 0; --begin) {
      const auto here = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
      if (!std::equal(here.begin(), here.end(), tail.begin())) continue;
      best = begin + n;
      if (size - best >= wanted) break;
    }
    if (best == size) continue;
    const auto found = tokens.subspan(static_cast<size_t>(best));
    return {found.begin(), found.begin() + std::min<int64_t>(wanted, std::ssize(found))};
  }
  return {};
}

namespace {

class PromptLookup final : public Drafter {
 public:
  explicit PromptLookup(int32_t max_ngram) : max_ngram_(max_ngram) {}

  void draft(std::span<const DraftWish> wishes) override {
    for (const DraftWish& wish : wishes) {
      const std::vector<int32_t>& prompt = wish.sample->request->request.prompt;
      const std::vector<int32_t>& reply = wish.sample->result.tokens;
      tokens_.assign(prompt.begin(), prompt.end());
      tokens_.insert(tokens_.end(), reply.begin(), reply.end());
      wish.sample->draft = look_up(tokens_, max_ngram_, wish.wanted);
    }
  }
  void release(SampleState&) override {}

 private:
  int32_t max_ngram_;
  std::vector<int32_t> tokens_;
};

}  // namespace

std::unique_ptr<Drafter> make_prompt_lookup(int32_t max_ngram) {
  return std::make_unique<PromptLookup>(max_ngram);
}

}  // namespace mainspring

#include "mainspring/sample/token_constraint.h"

#include <algorithm>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

/// Sets kept at once: 25 MB at 49,152 tokens.
constexpr size_t kMaxKept = 4096;

}  // namespace

TokenBytes::TokenBytes(std::vector<std::string> bytes) : bytes_(std::move(bytes)) {
  for (int32_t token = 0; token < std::ssize(bytes_); ++token) {
    if (!of(token).empty()) sorted_.push_back(token);
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [this](int32_t a, int32_t b) { return of(a) != of(b) ? of(a) < of(b) : a < b; });
}

TokenConstraint::State TokenConstraint::after(State state, int32_t token) {
  const std::lock_guard lock(mutex_);
  const State next = automaton_->next(state, std::string_view(tokens_->of(token)));
  MS_CHECK(next != ByteAutomaton::kDead, "a token that is not allowed");
  return next;
}

/// Of the sorted tokens [begin, end), which share their first `depth` bytes and led to `state`.
void TokenConstraint::walk(State state, size_t begin, size_t end, size_t depth,
                           std::vector<uint64_t>& bits) {
  const std::span<const int32_t> sorted = tokens_->sorted();
  while (begin < end && tokens_->of(sorted[begin]).size() == depth) {
    const auto token = static_cast<size_t>(sorted[begin++]);
    bits[token / 64] |= uint64_t{1} << (token % 64);
  }
  while (begin < end) {
    const char byte = tokens_->of(sorted[begin])[depth];
    size_t same = begin + 1;
    while (same < end && tokens_->of(sorted[same])[depth] == byte) ++same;
    const State next = automaton_->next(state, static_cast<uint8_t>(byte));
    if (next != ByteAutomaton::kDead) walk(next, begin, same, depth + 1, bits);
    begin = same;
  }
}

std::shared_ptr<const TokenSet> TokenConstraint::set_of(State state) {
  const auto known = sets_.find(state);
  if (known != sets_.end()) return known->second;
  if (sets_.size() >= kMaxKept) sets_.clear();
  auto set = std::make_shared<TokenSet>();
  set->bits.assign(static_cast<size_t>((tokens_->vocabulary() + 63) / 64), 0);
  walk(state, 0, tokens_->sorted().size(), 0, set->bits);
  set->is_empty =
      std::all_of(set->bits.begin(), set->bits.end(), [](uint64_t w) { return w == 0; });
  sets_.emplace(state, set);
  return set;
}

std::shared_ptr<const TokenSet> TokenConstraint::allowed(State state) {
  const std::lock_guard lock(mutex_);
  return set_of(state);
}

bool TokenConstraint::may_end(State state) {
  const std::lock_guard lock(mutex_);
  return automaton_->is_end(state);
}

bool TokenConstraint::must_end(State state) {
  const std::lock_guard lock(mutex_);
  return !automaton_->can_go_on(state) || set_of(state)->is_empty;
}

}  // namespace mainspring

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
  add_nodes(0, sorted_.size(), 0);
}

/// Of the sorted tokens [begin, end), which share their first `depth` bytes and have more.
void TokenBytes::add_nodes(size_t begin, size_t end, size_t depth) {
  while (begin < end) {
    const char byte = of(sorted_[begin])[depth];
    size_t same = begin + 1;
    while (same < end && of(sorted_[same])[depth] == byte) ++same;
    size_t longer = begin;
    while (longer < same && of(sorted_[longer]).size() == depth + 1) ++longer;
    const size_t node = nodes_.size();
    nodes_.push_back({.byte = static_cast<uint8_t>(byte),
                      .end = 0,
                      .first_token = static_cast<int32_t>(begin),
                      .num_tokens = static_cast<int32_t>(longer - begin)});
    add_nodes(longer, same, depth + 1);
    nodes_[node].end = static_cast<int32_t>(nodes_.size());
    begin = same;
  }
}

TokenConstraint::State TokenConstraint::after(State state, int32_t token) {
  const std::lock_guard lock(mutex_);
  const State next = automaton_->next(state, std::string_view(tokens_->of(token)));
  MS_CHECK(next != ByteAutomaton::kDead, "a token that is not allowed");
  return next;
}

/// Of the tree's nodes [begin, end), whose parent led to `state`.
void TokenConstraint::walk(State state, size_t begin, size_t end, std::vector<uint64_t>& bits) {
  const std::span<const TokenBytes::Node> nodes = tokens_->nodes();
  for (size_t at = begin; at < end; at = static_cast<size_t>(nodes[at].end)) {
    const TokenBytes::Node& node = nodes[at];
    const State next = automaton_->next(state, node.byte);
    if (next == ByteAutomaton::kDead) continue;
    for (const int32_t token : tokens_->tokens_of(node))
      bits[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    walk(next, at + 1, static_cast<size_t>(node.end), bits);
  }
}

std::shared_ptr<const TokenSet> TokenConstraint::set_of(State state) {
  const auto known = sets_.find(state);
  if (known != sets_.end()) return known->second;
  if (sets_.size() >= kMaxKept) sets_.clear();
  auto set = std::make_shared<TokenSet>();
  set->bits.assign(static_cast<size_t>((tokens_->vocabulary() + 63) / 64), 0);
  walk(state, 0, tokens_->nodes().size(), set->bits);
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

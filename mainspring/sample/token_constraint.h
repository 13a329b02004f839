// TokenConstraint: which tokens a constrained reply may go on with.
//
// The one idea: a token is allowed if its bytes lead the automaton to a place from which the text
// can be finished; the set for a state is found by one walk over the vocabulary in byte order and
// kept. Threads: any; one works at a time. Internal to sample/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/sample/byte_automaton.h"

namespace mainspring {

/// Tokens, a bit each.
struct TokenSet {
  std::vector<uint64_t> bits;
  bool is_empty = true;

  bool has(int32_t token) const {
    return (bits[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
  }
};

/// A set of tokens, and single ones beside it.
struct AllowedTokens {
  std::shared_ptr<const TokenSet> set;
  std::span<const int32_t> also;
};

/// The vocabulary in the order of its bytes.
class TokenBytes {
 public:
  /// Empty texts are tokens that no constrained text has (control tokens).
  explicit TokenBytes(std::vector<std::string> bytes);

  const std::string& of(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  int64_t vocabulary() const { return std::ssize(bytes_); }
  /// Tokens with text, sorted by it.
  std::span<const int32_t> sorted() const { return sorted_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<int32_t> sorted_;
};

class TokenConstraint {
 public:
  TokenConstraint(std::unique_ptr<ByteAutomaton> automaton,
                  std::shared_ptr<const TokenBytes> tokens)
      : automaton_(std::move(automaton)), tokens_(std::move(tokens)) {}

  using State = ByteAutomaton::State;
  State start() const { return automaton_->start(); }
  /// Precondition: the token was allowed.
  State after(State state, int32_t token);
  /// The text is whole: it may end here.
  bool may_end(State state);
  /// No token can follow: the text is whole, or (see may_end) the vocabulary lacks what is missing.
  bool must_end(State state);
  /// Tokens with text that may follow. Cost: the first time for a state up to one step per byte of
  /// the vocabulary, 2 ms at 49,152 tokens.
  std::shared_ptr<const TokenSet> allowed(State state);

 private:
  std::shared_ptr<const TokenSet> set_of(State state);  // locked
  void walk(State state, size_t begin, size_t end, size_t depth, std::vector<uint64_t>& bits);

  std::mutex mutex_;  // of all below
  std::unique_ptr<ByteAutomaton> automaton_;
  std::shared_ptr<const TokenBytes> tokens_;
  std::map<State, std::shared_ptr<const TokenSet>> sets_;
};

}  // namespace mainspring

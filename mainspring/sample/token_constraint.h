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

/// The vocabulary as a tree of bytes: tokens that begin alike share their way.
class TokenBytes {
 public:
  /// Empty texts are tokens that no constrained text has (control tokens).
  explicit TokenBytes(std::vector<std::string> bytes);

  const std::string& of(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  int64_t vocabulary() const { return std::ssize(bytes_); }

  /// Nodes in depth-first order, each behind its parent.
  struct Node {
    uint8_t byte = 0;
    int32_t end = 0;  // behind its last descendant
    int32_t first_token = 0;
    int32_t num_tokens = 0;  // of `tokens` from the first on: those whose text ends here
  };
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const int32_t> tokens_of(const Node& node) const {
    return std::span(sorted_).subspan(static_cast<size_t>(node.first_token),
                                      static_cast<size_t>(node.num_tokens));
  }

 private:
  void add_nodes(size_t begin, size_t end, size_t depth);

  std::vector<std::string> bytes_;
  std::vector<int32_t> sorted_;  // tokens with text, by it
  std::vector<Node> nodes_;
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
  /// Tokens with text that may follow. Cost: the first time for a state up to one step per node of
  /// the vocabulary's tree.
  std::shared_ptr<const TokenSet> allowed(State state);

 private:
  std::shared_ptr<const TokenSet> set_of(State state);  // locked
  void walk(State state, size_t begin, size_t end, std::vector<uint64_t>& bits);

  std::mutex mutex_;  // of all below
  std::unique_ptr<ByteAutomaton> automaton_;
  std::shared_ptr<const TokenBytes> tokens_;
  std::map<State, std::shared_ptr<const TokenSet>> sets_;
};

}  // namespace mainspring

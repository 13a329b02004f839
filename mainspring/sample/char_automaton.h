// CharAutomaton: a set of texts as a deterministic automaton over characters.
//
// The one idea: what a pattern, a length, a format or a range of numbers asks of a text becomes one
// of these; asking for several is their product. Internal to sample/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "mainspring/sample/char_set.h"

namespace mainspring {

/// Begins in state 0. The sets of a state's edges are disjoint; a character on none is refused.
struct CharAutomaton {
  struct Edge {
    CharSet set;
    int32_t target = 0;
  };
  struct State {
    bool is_end = false;
    std::vector<Edge> edges;
  };
  std::vector<State> states;

  /// Adds the edge, or its set to an edge with that target.
  void connect(int32_t from, const CharSet& set, int32_t target);
  bool accepts(std::string_view utf8) const;
  /// No text is accepted.
  bool is_empty() const;
  /// Every text is accepted (as far as one state shows it).
  bool is_everything() const;
};

/// States of an automaton that is made: beyond this a schema is refused.
inline constexpr size_t kMaxCharStates = 20000;

/// Texts of `least` to `most` (-1: any) characters.
CharAutomaton texts_of_length(int64_t least, int64_t most);

/// All texts but these.
CharAutomaton texts_other_than(const std::vector<std::string>& names);

/// Texts that both accept; nothing if that took more than kMaxCharStates.
std::optional<CharAutomaton> intersect(const CharAutomaton& a, const CharAutomaton& b);

/// Without the states from which no end is reached (the first stays).
CharAutomaton trimmed(const CharAutomaton& automaton);

}  // namespace mainspring

#include "mainspring/sample/char_automaton.h"

#include <algorithm>
#include <map>

namespace mainspring {
namespace {

/// Whether an end can be reached, for each state: backwards from the ends until nothing changes.
std::vector<bool> live_states(const CharAutomaton& automaton) {
  const size_t count = automaton.states.size();
  std::vector<std::vector<size_t>> sources(count);
  std::vector<bool> is_live(count, false);
  std::vector<size_t> open;
  for (size_t i = 0; i < count; ++i) {
    for (const auto& edge : automaton.states[i].edges)
      sources[static_cast<size_t>(edge.target)].push_back(i);
    if (automaton.states[i].is_end) open.push_back(i);
  }
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (is_live[at]) continue;
    is_live[at] = true;
    open.insert(open.end(), sources[at].begin(), sources[at].end());
  }
  return is_live;
}

}  // namespace

void CharAutomaton::connect(int32_t from, const CharSet& set, int32_t target) {
  if (set.is_empty()) return;
  std::vector<Edge>& edges = states[static_cast<size_t>(from)].edges;
  for (Edge& edge : edges) {
    if (edge.target != target) continue;
    edge.set = edge.set | set;
    return;
  }
  edges.push_back({set, target});
}

bool CharAutomaton::accepts(std::string_view utf8) const {
  size_t at = 0;
  for (const int32_t c : characters_of(utf8)) {
    const auto& edges = states[at].edges;
    const auto edge =
        std::find_if(edges.begin(), edges.end(), [c](const Edge& e) { return e.set.has(c); });
    if (edge == edges.end()) return false;
    at = static_cast<size_t>(edge->target);
  }
  return states[at].is_end;
}

bool CharAutomaton::is_empty() const { return !live_states(*this)[0]; }

bool CharAutomaton::is_everything() const {
  const State& first = states[0];
  return first.is_end && first.edges.size() == 1 && first.edges[0].target == 0 &&
         first.edges[0].set == CharSet::all();
}

CharAutomaton texts_of_length(int64_t least, int64_t most) {
  const int64_t last = most < 0 ? least : most;
  CharAutomaton out;
  out.states.resize(static_cast<size_t>(last + 1));
  for (int64_t i = 0; i <= last; ++i) {
    out.states[static_cast<size_t>(i)].is_end = i >= least;
    if (i < last || most < 0) {
      const auto from = static_cast<int32_t>(i);
      out.connect(from, CharSet::all(), static_cast<int32_t>(std::min(i + 1, last)));
    }
  }
  return out;
}

CharAutomaton texts_other_than(const std::vector<std::string>& names) {
  CharAutomaton out;
  out.states.resize(2);  // the beginning, and: no name any more
  out.states[0].is_end = out.states[1].is_end = true;
  out.connect(1, CharSet::all(), 1);
  for (const std::string& name : names) {
    int32_t at = 0;
    for (const int32_t c : characters_of(name)) {
      const auto& edges = out.states[static_cast<size_t>(at)].edges;
      const auto known =
          std::find_if(edges.begin(), edges.end(), [c](const auto& e) { return e.set.has(c); });
      if (known != edges.end()) {
        at = known->target;
        continue;
      }
      const auto fresh = static_cast<int32_t>(out.states.size());
      out.connect(at, {c, c}, fresh);
      out.states.push_back({.is_end = true, .edges = {}});
      at = fresh;
    }
    out.states[static_cast<size_t>(at)].is_end = false;
  }
  for (size_t i = 0; i < out.states.size(); ++i) {
    CharSet named;
    for (const auto& edge : out.states[i].edges) named = named | edge.set;
    out.connect(static_cast<int32_t>(i), ~named, 1);
  }
  return out;
}

std::optional<CharAutomaton> intersect(const CharAutomaton& a, const CharAutomaton& b) {
  CharAutomaton out;
  std::map<std::pair<int32_t, int32_t>, int32_t> state_of;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto state = [&](int32_t in_a, int32_t in_b) {
    const auto [found, is_new] =
        state_of.emplace(std::pair{in_a, in_b}, static_cast<int32_t>(pairs.size()));
    if (is_new) {
      pairs.emplace_back(in_a, in_b);
      out.states.emplace_back();
    }
    return found->second;
  };
  state(0, 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > kMaxCharStates) return std::nullopt;
    const auto& in_a = a.states[static_cast<size_t>(pairs[i].first)];
    const auto& in_b = b.states[static_cast<size_t>(pairs[i].second)];
    out.states[i].is_end = in_a.is_end && in_b.is_end;
    for (const auto& edge_a : in_a.edges) {
      for (const auto& edge_b : in_b.edges) {
        const CharSet common = edge_a.set & edge_b.set;
        if (common.is_empty()) continue;
        out.connect(static_cast<int32_t>(i), common, state(edge_a.target, edge_b.target));
      }
    }
  }
  return trimmed(out);
}

CharAutomaton trimmed(const CharAutomaton& automaton) {
  const std::vector<bool> is_live = live_states(automaton);
  std::vector<int32_t> place(automaton.states.size(), -1);
  int32_t count = 0;
  for (size_t i = 0; i < place.size(); ++i) {
    if (i == 0 || is_live[i]) place[i] = count++;
  }
  CharAutomaton out;
  out.states.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0) continue;
    CharAutomaton::State& state = out.states[static_cast<size_t>(place[i])];
    state.is_end = automaton.states[i].is_end;
    for (const auto& edge : automaton.states[i].edges) {
      const auto target = static_cast<size_t>(edge.target);
      if (is_live[target]) state.edges.push_back({edge.set, place[target]});
    }
  }
  return out;
}

}  // namespace mainspring

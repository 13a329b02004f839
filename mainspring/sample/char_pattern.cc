#include "mainspring/sample/char_pattern.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace mainspring {
namespace {

constexpr int64_t kMaxCount = 1024;      // of {m,n}
constexpr size_t kMaxPlaces = 50000;     // of the automaton that is not deterministic yet
constexpr int64_t kMaxWork = 4'000'000;  // about a second
constexpr size_t kMaxNestedGroups = 100;

/// What a pattern consists of.
struct Part {
  enum class Kind : uint8_t { kChars, kBegin, kEnd, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  CharSet set;              // kChars
  std::vector<Part> parts;  // kSequence, kChoice; kRepeat: one
  int64_t least = 0;        // kRepeat
  int64_t most = -1;        // -1: no limit
};

CharSet digits() { return {'0', '9'}; }
CharSet word_characters() {
  return digits() | CharSet('A', 'Z') | CharSet('a', 'z') | CharSet('_', '_');
}
CharSet line_ends() { return CharSet::of("\n\r") | CharSet(0x2028, 0x2029); }
CharSet spaces() {
  CharSet set = CharSet::of("\t\v\f ") | line_ends();
  for (const int32_t c : {0x00A0, 0x1680, 0x202F, 0x205F, 0x3000, 0xFEFF}) set.add(c, c);
  set.add(0x2000, 0x200A);
  return set;
}

/// Recursive descent over the characters of a pattern.
class Parser {
 public:
  explicit Parser(const std::string& pattern) : text_(characters_of(pattern)) {}

  Result<Part> parse() {
    MS_ASSIGN_OR_RETURN(Part part, choice());
    if (at_ < text_.size()) return error("')' closes no group");
    return part;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  int32_t peek() const { return at_end() ? -1 : text_[at_]; }
  bool next_is(char c) const { return peek() == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view ascii) {
    if (text_.size() - at_ < ascii.size()) return false;
    for (size_t i = 0; i < ascii.size(); ++i) {
      if (text_[at_ + i] != ascii[i]) return false;
    }
    at_ += ascii.size();
    return true;
  }
  Status error(const std::string& what) const { return error_at(at_, what); }
  static Status error_at(size_t at, const std::string& what) {
    return invalid_argument("at position " + std::to_string(at) + ": " + what);
  }

  static Part chars(CharSet set) {
    Part part;
    part.kind = Part::Kind::kChars;
    part.set = std::move(set);
    return part;
  }

  Result<Part> choice() {
    Part out;
    out.kind = Part::Kind::kChoice;
    do {
      MS_ASSIGN_OR_RETURN(Part part, sequence());
      out.parts.push_back(std::move(part));
    } while (take('|'));
    if (out.parts.size() > 1) return out;
    Part only = std::move(out.parts[0]);
    return only;
  }

  Result<Part> sequence() {
    Part out;
    while (!at_end() && !next_is('|') && !next_is(')')) {
      MS_ASSIGN_OR_RETURN(Part part, repeated());
      out.parts.push_back(std::move(part));
    }
    return out;
  }

  Result<Part> repeated() {
    const size_t begin = at_;
    MS_ASSIGN_OR_RETURN(Part part, atom());
    const size_t quantifier = at_;
    Part out;
    out.kind = Part::Kind::kRepeat;
    if (take('*')) {
      out.least = 0;
    } else if (take('+')) {
      out.least = 1;
    } else if (take('?')) {
      out.most = 1;
    } else if (next_is('{')) {
      MS_RETURN_IF_ERROR(counts(out));
    } else {
      return part;
    }
    if (part.kind == Part::Kind::kBegin || part.kind == Part::Kind::kEnd)
      return error_at(begin, "^ and $ cannot be repeated");
    take('?');  // lazy: the same texts
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{'))
      return error_at(quantifier, "one repetition behind another");
    out.parts.push_back(std::move(part));
    return out;
  }

  Status counts(Part& out) {
    const size_t begin = at_;
    take('{');
    MS_ASSIGN_OR_RETURN(out.least, count(begin));
    out.most = out.least;
    if (take(',')) {
      out.most = -1;
      if (!next_is('}')) {
        MS_ASSIGN_OR_RETURN(out.most, count(begin));
      }
    }
    if (!take('}')) return error_at(begin, "expected {m}, {m,} or {m,n}; a brace itself is \\{");
    if (out.most >= 0 && out.most < out.least) return error_at(begin, "{m,n} with n below m");
    return {};
  }

  Result<int64_t> count(size_t begin) {
    int64_t value = 0;
    const size_t first = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<int64_t>(value * 10 + (peek() - '0'), kMaxCount + 1);
    if (at_ == first) return error_at(begin, "expected {m}, {m,} or {m,n}; a brace itself is \\{");
    if (value > kMaxCount)
      return error_at(begin,
                      "repetitions beyond " + std::to_string(kMaxCount) + " are not supported");
    return value;
  }

  Result<Part> atom() {
    const size_t begin = at_;
    Part part;
    if (take('^')) {
      part.kind = Part::Kind::kBegin;
      return part;
    }
    if (take('$')) {
      part.kind = Part::Kind::kEnd;
      return part;
    }
    if (take('(')) return group(begin);
    if (take('.')) return chars(~line_ends());
    if (take('[')) return character_class(begin);
    if (take('\\')) {
      MS_ASSIGN_OR_RETURN(CharSet set, escape(begin, false));
      return chars(std::move(set));
    }
    if (next_is('*') || next_is('+') || next_is('?')) return error("there is nothing to repeat");
    if (next_is('{')) return error("there is nothing to repeat; a brace itself is \\{");
    const int32_t c = text_[at_++];
    return chars({c, c});
  }

  Result<Part> group(size_t begin) {
    if (take('?')) {
      if (next_is('=') || next_is('!')) return error_at(begin, "look-ahead is not supported");
      if (take("<=") || take("<!")) return error_at(begin, "look-behind is not supported");
      if (take('<')) {
        while (!at_end() && !next_is('>')) ++at_;
        if (!take('>')) return error_at(begin, "a group's name is not closed");
      } else if (!take(':')) {
        return error_at(begin, "flags and other groups of (? are not supported");
      }
    }
    if (++depth_ > kMaxNestedGroups) return error_at(begin, "groups nest too deep");
    MS_ASSIGN_OR_RETURN(Part part, choice());
    --depth_;
    if (!take(')')) return error_at(begin, "a group is not closed");
    // A group's content is one thing to repeat, ^ and $ included.
    Part out;
    out.parts.push_back(std::move(part));
    return out;
  }

  Result<Part> character_class(size_t begin) {
    const bool is_negated = take('^');
    CharSet set;
    while (!next_is(']')) {
      if (at_end()) return error_at(begin, "a class is not closed");
      const size_t item = at_;
      MS_ASSIGN_OR_RETURN(const CharSet first, class_item());
      const bool is_range = next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        set = set | first;
        continue;
      }
      take('-');
      MS_ASSIGN_OR_RETURN(const CharSet last, class_item());
      const auto single = [](const CharSet& s) {
        return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].second;
      };
      if (!single(first) || !single(last))
        return error_at(item, "a range goes from one character to another");
      if (last.ranges()[0].first < first.ranges()[0].first)
        return error_at(item, "a range that ends before it begins");
      set.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    take(']');
    return chars(is_negated ? ~set : set);
  }

  Result<CharSet> class_item() {
    const size_t begin = at_;
    if (take('\\')) return escape(begin, true);
    if (at_end()) return error("a class is not closed");
    const int32_t c = text_[at_++];
    return CharSet(c, c);
  }

  /// Behind the backslash at `begin`.
  Result<CharSet> escape(size_t begin, bool in_class) {
    if (at_end()) return error_at(begin, "a backslash at the end");
    const int32_t c = text_[at_++];
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return ~digits();
      case 'w':
        return word_characters();
      case 'W':
        return ~word_characters();
      case 's':
        return spaces();
      case 'S':
        return ~spaces();
      case 't':
        return CharSet('\t', '\t');
      case 'n':
        return CharSet('\n', '\n');
      case 'v':
        return CharSet('\v', '\v');
      case 'f':
        return CharSet('\f', '\f');
      case 'r':
        return CharSet('\r', '\r');
      case 'b':
        if (in_class) return CharSet('\b', '\b');
        return error_at(begin, "word borders (\\b, \\B) are not supported");
      case 'B':
        return error_at(begin, "word borders (\\b, \\B) are not supported");
      case 'p':
      case 'P':
        return error_at(begin, "Unicode properties (\\p) are not supported");
      case 'k':
        return error_at(begin, "back-references are not supported");
      case 'x':
        return hexadecimal(begin, 2);
      case 'u':
        return unicode(begin);
      case 'c': {
        const int32_t letter = peek() | 0x20;
        if (letter < 'a' || letter > 'z') return error_at(begin, "expected a letter behind \\c");
        ++at_;
        return CharSet(letter & 31, letter & 31);
      }
      case '0':
        if (peek() < '0' || peek() > '9') return CharSet(0, 0);
        return error_at(begin, "octal escapes are not supported");
      default:
        break;
    }
    if (c >= '1' && c <= '9') return error_at(begin, "back-references are not supported");
    if (word_characters().has(c) || c > 0x7F) return error_at(begin, "no such escape");
    return CharSet(c, c);
  }

  Result<CharSet> hexadecimal(size_t begin, int count) {
    int32_t value = 0;
    for (int i = 0; i < count; ++i) {
      MS_ASSIGN_OR_RETURN(const int32_t digit, hex_digit(begin));
      value = value * 16 + digit;
    }
    return one(begin, value);
  }

  Result<CharSet> unicode(size_t begin) {
    if (!take('{')) return hexadecimal(begin, 4);
    int32_t value = 0;
    do {
      MS_ASSIGN_OR_RETURN(const int32_t digit, hex_digit(begin));
      value = std::min(value * 16 + digit, kLastChar + 1);
    } while (!take('}'));
    return one(begin, value);
  }

  static Result<CharSet> one(size_t begin, int32_t value) {
    if (value > kLastChar) return error_at(begin, "no such character");
    CharSet set(value, value);
    if (set.is_empty()) return error_at(begin, "half of a surrogate pair; write \\u{...}");
    return set;
  }

  Result<int32_t> hex_digit(size_t begin) {
    const int32_t c = peek();
    ++at_;
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f' && c > 0) return (c | 0x20) - 'a' + 10;
    return error_at(begin, "expected hexadecimal digits");
  }

  std::vector<int32_t> text_;
  size_t at_ = 0;
  size_t depth_ = 0;
};

/// Places joined by characters or by nothing.
class Places {
 public:
  enum class Kind : uint8_t { kChars, kFork, kBegin, kEnd, kFound };
  struct Place {
    Kind kind = Kind::kFork;
    CharSet set;
    int32_t a = -1;
    int32_t b = -1;
  };

  /// The place from which `part` leads to `after`; built from the end, so every target is known.
  int32_t add(const Part& part, int32_t after) {
    switch (part.kind) {
      case Part::Kind::kChars:
        return make({Kind::kChars, part.set, after, -1});
      case Part::Kind::kBegin:
        return make({Kind::kBegin, {}, after, -1});
      case Part::Kind::kEnd:
        return make({Kind::kEnd, {}, after, -1});
      case Part::Kind::kSequence:
        for (auto p = part.parts.rbegin(); p != part.parts.rend() && !is_full(); ++p)
          after = add(*p, after);
        return after;
      case Part::Kind::kChoice: {
        int32_t begin = add(part.parts.back(), after);
        for (size_t i = part.parts.size() - 1; i-- > 0 && !is_full();)
          begin = make({Kind::kFork, {}, add(part.parts[i], after), begin});
        return begin;
      }
      case Part::Kind::kRepeat:
        return add_repeat(part, after);
    }
    return after;
  }
  int32_t add_found() { return make({Kind::kFound, {}, -1, -1}); }
  bool is_full() const { return places_.size() > kMaxPlaces; }
  const Place& at(int32_t place) const { return places_[static_cast<size_t>(place)]; }

 private:
  int32_t make(Place place) {
    places_.push_back(std::move(place));
    return static_cast<int32_t>(places_.size() - 1);
  }

  int32_t add_repeat(const Part& part, int32_t after) {
    const Part& inner = part.parts[0];
    if (part.most < 0) {
      const int32_t loop = make({Kind::kFork, {}, -1, after});
      const int32_t body = add(inner, loop);
      places_[static_cast<size_t>(loop)].a = body;
      after = loop;
    } else {
      const int32_t end = after;
      for (int64_t i = part.least; i < part.most && !is_full(); ++i)
        after = make({Kind::kFork, {}, add(inner, after), end});
    }
    for (int64_t i = 0; i < part.least && !is_full(); ++i) after = add(inner, after);
    return after;
  }

  std::vector<Place> places_;
};

/// The subset construction, over the characters at which some set begins or ends.
class Determiniser {
 public:
  Determiniser(const Places& places, int32_t start) : places_(places), start_(start) {}

  Result<CharAutomaton> run() {
    follow(start_, false, restart_);
    std::set<int32_t> first;
    follow(start_, true, first);
    state_of(first, true);
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (sets_.size() > kMaxCharStates || work_ > kMaxWork) {
        return invalid_argument("at position 0: needs more than " + std::to_string(kMaxCharStates) +
                                " states, or as much work");
      }
      step(static_cast<int32_t>(i));
    }
    return trimmed(out_);
  }

 private:
  /// What is reached without a character. ^ holds at the beginning only; $ waits.
  void follow(int32_t place, bool at_begin, std::set<int32_t>& into, bool at_end = false) const {
    std::vector<int32_t> open = {place};
    std::set<int32_t> seen;
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      ++work_;
      const Places::Place& p = places_.at(at);
      if (p.kind == Places::Kind::kFork) {
        open.push_back(p.a);
        open.push_back(p.b);
      } else if (p.kind == Places::Kind::kBegin) {
        if (at_begin) open.push_back(p.a);
      } else if (p.kind == Places::Kind::kEnd && at_end) {
        open.push_back(p.a);
      } else {
        into.insert(at);
      }
    }
  }

  bool has_found(const std::set<int32_t>& set) const {
    return std::any_of(set.begin(), set.end(),
                       [this](int32_t p) { return places_.at(p).kind == Places::Kind::kFound; });
  }

  /// Once found, always found: such states are one. -1: nothing can be found any more.
  int32_t state_of(std::set<int32_t> set, bool is_first) {
    const bool is_found = has_found(set);
    if (is_found && !is_first) {
      std::erase_if(set, [this](int32_t p) { return places_.at(p).kind != Places::Kind::kFound; });
    }
    if (set.empty() && !is_first) return -1;
    const auto [known, is_new] =
        state_of_.emplace(std::pair{set, is_first}, static_cast<int32_t>(sets_.size()));
    if (is_new) {
      bool is_end = is_found;
      for (const int32_t place : set) {
        std::set<int32_t> beyond;
        follow(place, is_first, beyond, true);
        is_end = is_end || has_found(beyond);
      }
      sets_.push_back(std::move(set));
      out_.states.push_back({.is_end = is_end, .edges = {}});
    }
    return known->second;
  }

  void step(int32_t state) {
    const std::set<int32_t> from = sets_[static_cast<size_t>(state)];
    if (has_found(from)) {
      std::set<int32_t> found = from;
      out_.connect(state, CharSet::all(), state_of(std::move(found), false));
      return;
    }
    std::set<int32_t> cuts = {0};
    for (const int32_t place : from) {
      for (const auto& [first, last] : places_.at(place).set.ranges()) {
        cuts.insert(first);
        cuts.insert(last + 1);
      }
    }
    for (auto cut = cuts.begin(); cut != cuts.end() && *cut <= kLastChar; ++cut) {
      const auto next = std::next(cut);
      const CharSet characters(*cut, next == cuts.end() ? kLastChar : *next - 1);
      if (characters.is_empty()) continue;
      std::set<int32_t> to = restart_;
      for (const int32_t place : from) {
        if (places_.at(place).set.has(characters.ranges()[0].first))
          follow(places_.at(place).a, false, to);
      }
      const int32_t target = state_of(std::move(to), false);
      if (target >= 0) out_.connect(state, characters, target);
    }
  }

  const Places& places_;
  int32_t start_;
  std::set<int32_t> restart_;  // the search may begin anywhere
  mutable int64_t work_ = 0;   // places visited
  std::map<std::pair<std::set<int32_t>, bool>, int32_t> state_of_;
  std::vector<std::set<int32_t>> sets_;
  CharAutomaton out_;
};

}  // namespace

Result<CharAutomaton> compile_pattern(const std::string& pattern) {
  MS_ASSIGN_OR_RETURN(const Part part, Parser(pattern).parse());
  Places places;
  const int32_t found = places.add_found();
  const int32_t start = places.add(part, found);
  if (places.is_full()) return invalid_argument("at position 0: its repetitions are too many");
  return Determiniser(places, start).run();
}

}  // namespace mainspring

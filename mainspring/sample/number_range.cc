#include "mainspring/sample/number_range.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

#include "mainspring/base/check.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

int64_t power_of_ten(int64_t exponent) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

/// Without zeros at either end.
void normalise(Decimal& d) {
  const size_t first = d.digits.find_first_not_of('0');
  if (first == std::string::npos) {
    d = {};
    return;
  }
  d.digits.erase(0, first);
  d.exponent -= static_cast<int64_t>(first);
  d.digits.erase(d.digits.find_last_not_of('0') + 1);
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero()) return a.is_zero() && b.is_zero() ? 0 : a.is_zero() ? -1 : 1;
  if (a.exponent != b.exponent) return a.exponent < b.exponent ? -1 : 1;
  const int order = a.digits.compare(b.digits);  // a prefix is less: what follows is not zero
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

/// The magnitude's digits before the point ("0" if there are none) and behind it.
std::pair<std::string, std::string> split(const Decimal& d) {
  if (d.exponent <= 0)
    return {"0", d.is_zero() ? "" : std::string(static_cast<size_t>(-d.exponent), '0') + d.digits};
  const auto point = static_cast<size_t>(d.exponent);
  if (d.digits.size() <= point) return {d.digits + std::string(point - d.digits.size(), '0'), ""};
  return {d.digits.substr(0, point), d.digits.substr(point)};
}

/// A bound of magnitudes, digit by digit. Absent: none.
struct Bound {
  bool is_there = false;
  bool is_excluded = false;
  std::string before;
  std::string behind;

  size_t size() const { return before.size() + behind.size(); }
  char digit(size_t i) const {
    return i < before.size() ? before[i] : i < size() ? behind[i - before.size()] : '0';
  }
  /// The first i digits are all of it.
  bool is_whole(size_t i) const { return i >= size(); }
};

Bound bound_of(const std::optional<Decimal>& decimal, bool is_excluded) {
  Bound bound;
  if (!decimal.has_value()) return bound;
  bound.is_there = true;
  bound.is_excluded = is_excluded;
  std::tie(bound.before, bound.behind) = split(*decimal);
  return bound;
}

/// Texts of magnitudes between two bounds, for every number of digits before the point.
class TextBuilder {
 public:
  TextBuilder(const NumberRange& range) : range_(range) { out_.states.resize(1); }

  /// Adds those from `least` to `most` behind what leads to `from`.
  bool add(int32_t from, const Bound& least, const Bound& most) {
    least_ = least;
    most_ = most;
    state_of_.clear();
    for (int64_t length = 1; length <= kMaxDigits; ++length) {
      const auto size = static_cast<size_t>(length);
      if (least.is_there && least.before.size() > size) continue;
      if (most.is_there && most.before.size() < size) continue;
      length_ = length;
      Progress begin;
      begin.at_least = least.is_there && least.before.size() == size;
      begin.at_most = most.is_there && most.before.size() == size;
      digit(from, begin);
      while (!open_.empty() && !is_full()) {
        const auto [state, progress] = open_.back();
        open_.pop_back();
        step(state, progress);
      }
      if (is_full()) return false;
    }
    return true;
  }

  int32_t add_minus() {
    out_.states.emplace_back();
    const auto state = static_cast<int32_t>(out_.states.size() - 1);
    out_.connect(0, CharSet('-', '-'), state);
    return state;
  }
  CharAutomaton take() { return trimmed(out_); }

 private:
  /// What the digits so far decide. `remainder`: of their value, zeros appended, by the multiple.
  struct Progress {
    int64_t digits = 0;     // so far
    bool at_least = false;  // they are the bound's
    bool at_most = false;
    bool is_behind = false;  // the point is there
    int64_t remainder = 0;
    friend auto operator<=>(const Progress&, const Progress&) = default;
  };

  bool is_full() const { return out_.states.size() > kMaxCharStates; }

  bool may_end(const Progress& p) const {
    if (p.digits < length_ || (p.is_behind && p.digits == length_) || p.remainder != 0)
      return false;
    const auto digits = static_cast<size_t>(p.digits);
    if (p.at_least && (!least_.is_whole(digits) || least_.is_excluded)) return false;
    return !(p.at_most && most_.is_whole(digits) && most_.is_excluded);
  }

  void step(int32_t state, const Progress& p) {
    if (may_end(p)) out_.states[static_cast<size_t>(state)].is_end = true;
    if (p.digits < length_ || (p.is_behind && p.digits < kMaxDigits)) {
      digit(state, p);
    } else if (p.digits == length_ && !p.is_behind && !range_.is_integer && length_ < kMaxDigits) {
      Progress behind = p;
      behind.is_behind = true;
      out_.connect(state, CharSet('.', '.'), state_of(behind));
    }
  }

  /// Edges for the next digit.
  void digit(int32_t from, const Progress& p) {
    const auto place = static_cast<size_t>(p.digits);
    const char lowest = p.digits == 0 && length_ > 1 ? '1' : '0';
    const char first = p.at_least ? std::max(lowest, least_.digit(place)) : lowest;
    const char last = p.at_most ? most_.digit(place) : '9';
    for (char c = first; c <= last; ++c) {
      Progress next = p;
      ++next.digits;
      next.at_least = p.at_least && c == least_.digit(place);
      next.at_most = p.at_most && c == most_.digit(place);
      if (range_.multiple > 1) {
        const int64_t unit = power_of_ten(length_ - next.digits);
        next.remainder = (p.remainder + (c - '0') * unit) % range_.multiple;
        // The digits left must be able to complete the multiple.
        if ((range_.multiple - next.remainder) % range_.multiple >= unit) continue;
      }
      out_.connect(from, CharSet(c, c), state_of(next));
    }
  }

  /// States that differ in nothing that matters are one, whatever the length before the point.
  int32_t state_of(const Progress& p) {
    const bool is_free = !p.at_least && !p.at_most;
    const int64_t left = p.is_behind ? kMaxDigits - p.digits : length_ - p.digits;
    const int64_t room = range_.is_integer ? 0 : kMaxDigits - length_;
    const Key key = {is_free ? -1 : length_, left, room, p};
    Key shared = key;
    if (is_free) {
      // Digits matter only behind the point, where one at least must come.
      std::get<3>(shared).digits = p.is_behind && p.digits == length_ ? 1 : 0;
    }
    const auto [known, is_new] =
        state_of_.emplace(shared, static_cast<int32_t>(out_.states.size()));
    if (is_new) {
      out_.states.emplace_back();
      open_.emplace_back(known->second, p);
    }
    return known->second;
  }

  using Key = std::tuple<int64_t, int64_t, int64_t, Progress>;
  const NumberRange& range_;
  Bound least_, most_;
  int64_t length_ = 0;  // digits before the point
  std::map<Key, int32_t> state_of_;
  std::vector<std::pair<int32_t, Progress>> open_;
  CharAutomaton out_;
};

Decimal negated(Decimal d) {
  d.is_negative = !d.is_negative && !d.is_zero();
  return d;
}

std::optional<Decimal> negated(const std::optional<Decimal>& d) {
  return d.has_value() ? std::optional(negated(*d)) : std::nullopt;
}

/// The range's part from zero up, or above zero.
bool add_magnitudes(TextBuilder& texts, int32_t from, NumberRange range, bool with_zero) {
  const Decimal zero;
  if (range.most.has_value() && compare(*range.most, zero) < 0) return true;
  if (!range.least.has_value() || compare(*range.least, zero) < 0) {
    range.least = zero;
    range.excludes_least = false;
  }
  if (!with_zero && compare(*range.least, zero) == 0) range.excludes_least = true;
  return texts.add(from, bound_of(range.least, range.excludes_least),
                   bound_of(range.most, range.excludes_most));
}

}  // namespace

Decimal decimal_of(const Json& number) {
  const std::string text = json_text(number);
  Decimal d;
  size_t at = 0;
  if (text[at] == '-') {
    d.is_negative = true;
    ++at;
  }
  bool is_behind = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      is_behind = true;
      continue;
    }
    d.digits += text[at];
    if (!is_behind) ++d.exponent;
  }
  if (at < text.size()) d.exponent += std::stoll(text.substr(at + 1));
  normalise(d);
  return d;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  const int order = compare_magnitudes(a, b);
  return a.is_negative ? -order : order;
}

bool NumberRange::contains(const Decimal& value) const {
  if (is_integer && !value.is_integer()) return false;
  if (least.has_value()) {
    const int order = compare(value, *least);
    if (order < 0 || (order == 0 && excludes_least)) return false;
  }
  if (most.has_value()) {
    const int order = compare(value, *most);
    if (order > 0 || (order == 0 && excludes_most)) return false;
  }
  if (multiple == 1) return true;
  int64_t remainder = 0;  // of the digits, one by one: they may be more than a word holds
  const std::string digits = split(value).first;
  for (const char c : digits)
    remainder =
        static_cast<int64_t>((static_cast<__int128>(remainder) * 10 + (c - '0')) % multiple);
  return remainder == 0;
}

bool NumberRange::is_provably_empty() const {
  if (!least.has_value() || !most.has_value()) return false;
  const int order = compare(*least, *most);
  if (order > 0 || (order == 0 && (excludes_least || excludes_most))) return true;
  if (!is_integer || least->exponent > kMaxDigits || most->exponent > kMaxDigits) return false;
  const auto texts = texts_of(*this);
  return texts.has_value() && texts->is_empty();
}

std::optional<NumberRange> intersect(const NumberRange& a, const NumberRange& b) {
  NumberRange out = a;
  out.is_integer = a.is_integer || b.is_integer;
  const int64_t factor = b.multiple / std::gcd(a.multiple, b.multiple);
  if (a.multiple > power_of_ten(kMaxDigits) / factor) return std::nullopt;
  out.multiple = a.multiple * factor;
  if (b.least.has_value()) {
    const int order = a.least.has_value() ? compare(*a.least, *b.least) : -1;
    out.excludes_least =
        order == 0 ? a.excludes_least || b.excludes_least : (order < 0 ? b : a).excludes_least;
    if (order < 0) out.least = b.least;
  }
  if (b.most.has_value()) {
    const int order = a.most.has_value() ? compare(*b.most, *a.most) : -1;
    out.excludes_most =
        order == 0 ? a.excludes_most || b.excludes_most : (order < 0 ? b : a).excludes_most;
    if (order < 0) out.most = b.most;
  }
  return out;
}

std::optional<int64_t> integer_multiple_of(const Decimal& factor) {
  const int64_t size = std::ssize(factor.digits);
  if (std::max(size, factor.exponent) > kMaxDigits) return std::nullopt;
  int64_t value = std::stoll(factor.digits);  // digits / 10^behind, in lowest terms below
  int64_t behind = size - factor.exponent;
  if (behind <= 0) return value * power_of_ten(-behind);
  for (; behind > 0; --behind) {  // ten's primes one by one: 10^behind need not fit
    if (value % 2 == 0) value /= 2;
    if (value % 5 == 0) value /= 5;
  }
  return value;
}

std::optional<CharAutomaton> texts_of(const NumberRange& range) {
  TextBuilder texts(range);
  if (!add_magnitudes(texts, 0, range, true)) return std::nullopt;
  NumberRange mirrored = range;
  mirrored.least = negated(range.most);
  mirrored.most = negated(range.least);
  std::swap(mirrored.excludes_least, mirrored.excludes_most);
  if (!add_magnitudes(texts, texts.add_minus(), mirrored, false)) return std::nullopt;
  return texts.take();
}

}  // namespace mainspring

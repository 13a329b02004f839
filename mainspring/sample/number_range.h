// NumberRange: which numbers a schema allows, and their texts as an automaton.
//
// The one idea: bounds are decimals as the schema writes them, compared digit by digit. A text of
// at most 15 digits is nearer to its own decimal than to any other as an f64 too, so whoever reads
// the text back, as a decimal or as an f64, finds it on the same side of every bound. Internal to
// sample/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"
#include "mainspring/sample/char_automaton.h"

namespace mainspring {

/// Digits of a number's text: so that every reader keeps an integer, and a number ends.
inline constexpr int64_t kMaxDigits = 15;

/// 0.DIGITS times 10^exponent; no digits: zero. Neither the first digit nor the last is '0'.
struct Decimal {
  bool is_negative = false;
  std::string digits;
  int64_t exponent = 0;

  bool is_zero() const { return digits.empty(); }
  bool is_integer() const { return static_cast<int64_t>(digits.size()) <= exponent; }
};

/// Precondition: a number. An f64 is the shortest decimal that reads back to it.
Decimal decimal_of(const Json& number);
/// Below, equal, above: -1, 0, 1.
int compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  bool is_integer = false;
  std::optional<Decimal> least, most;
  bool excludes_least = false;
  bool excludes_most = false;
  int64_t multiple = 1;  // of this; beside is_integer only

  /// Any number, or any integer.
  bool is_free() const { return !least.has_value() && !most.has_value() && multiple == 1; }
  bool contains(const Decimal& value) const;
  /// True only if nothing is in it, however it is written.
  bool is_provably_empty() const;
};

/// Nothing if the common multiple has more than kMaxDigits digits.
std::optional<NumberRange> intersect(const NumberRange& a, const NumberRange& b);

/// The least integer whose multiples are those integers that are multiples of `factor` (2.5: 5);
/// nothing if it has more than kMaxDigits digits. Precondition: factor > 0.
std::optional<int64_t> integer_multiple_of(const Decimal& factor);

/// The numbers of the range without exponent, of up to kMaxDigits digits in all, in the one form
/// without leading zeros, a plus or "-0". Edges of a state may overlap. Nothing if it took more
/// than kMaxCharStates.
std::optional<CharAutomaton> texts_of(const NumberRange& range);

}  // namespace mainspring

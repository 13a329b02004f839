// Arithmetic expressions in text, evaluated exactly.
//
// The one idea: values are fractions of 64-bit integers, so that 8 / 3 * 3 is 8 and no verdict
// hangs on rounding. Hostile text is refused: length and nesting are bounded, and so are values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

/// In lowest terms, bottom > 0.
struct Fraction {
  int64_t top = 0;
  int64_t bottom = 1;

  friend bool operator==(const Fraction&, const Fraction&) = default;
  bool is_whole() const { return bottom == 1; }
  /// "7" or "-8/3".
  std::string to_string() const;
};

struct ExpressionValue {
  Fraction value;
  std::vector<int64_t> numbers;  // as they stand in the text, from left to right
};

/// + - * / with the usual precedence, unary minus, parentheses, whole numbers. At most 1,000 bytes,
/// 50 levels of parentheses and signs.
/// Errors: invalid argument with the place; also for division by zero and values beyond 64 bits.
Result<ExpressionValue> evaluate_expression(std::string_view text);

/// `left` op `right` with op one of + - * /. Errors: as above.
Result<Fraction> combine(Fraction left, char op, Fraction right);

}  // namespace mainspring

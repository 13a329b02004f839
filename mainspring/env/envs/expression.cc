#include "mainspring/env/envs/expression.h"

#include <charconv>
#include <numeric>

namespace mainspring {
namespace {

constexpr size_t kMaxBytes = 1000;
constexpr int kMaxDepth = 50;

Result<Fraction> reduced(__int128 top, __int128 bottom) {
  if (bottom < 0) {
    top = -top;
    bottom = -bottom;
  }
  __int128 a = top < 0 ? -top : top;
  __int128 b = bottom;
  while (b != 0) {
    const __int128 rest = a % b;
    a = b;
    b = rest;
  }
  if (a > 1) {
    top /= a;
    bottom /= a;
  }
  // One bit to spare, so that sums of products of two such values fit in 128 bits.
  constexpr __int128 kMost = __int128{1} << 62;
  if (top > kMost || top < -kMost || bottom > kMost) {
    return invalid_argument("the value is too large");
  }
  return Fraction{static_cast<int64_t>(top), static_cast<int64_t>(bottom)};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<ExpressionValue> parse() {
    MS_ASSIGN_OR_RETURN(const Fraction value, sum());
    skip_blanks();
    if (at_ < text_.size()) return wrong("expected an operator or the end");
    return ExpressionValue{value, std::move(numbers_)};
  }

 private:
  Status wrong(const std::string& what) const {
    return invalid_argument("column " + std::to_string(at_ + 1) + ": " + what);
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  /// Takes one of `operators`, or gives 0.
  char take(std::string_view operators) {
    skip_blanks();
    if (at_ == text_.size() || operators.find(text_[at_]) == std::string_view::npos) return 0;
    return text_[at_++];
  }

  Result<Fraction> sum() { return chain("+-", &Parser::product); }
  Result<Fraction> product() { return chain("*/", &Parser::atom); }

  Result<Fraction> chain(std::string_view operators, Result<Fraction> (Parser::*operand)()) {
    MS_ASSIGN_OR_RETURN(Fraction value, (this->*operand)());
    while (const char op = take(operators)) {
      MS_ASSIGN_OR_RETURN(const Fraction right, (this->*operand)());
      const Result<Fraction> next = combine(value, op, right);
      if (!next.ok()) return wrong(next.status().message());
      value = *next;
    }
    return value;
  }

  Result<Fraction> atom() {
    if (++depth_ > kMaxDepth) return wrong("nested too deeply");
    const Result<Fraction> value = nested_atom();
    --depth_;
    return value;
  }

  Result<Fraction> nested_atom() {
    if (take("-") != 0) {
      MS_ASSIGN_OR_RETURN(const Fraction value, atom());
      return Fraction{-value.top, value.bottom};
    }
    if (take("(") != 0) {
      MS_ASSIGN_OR_RETURN(const Fraction value, sum());
      if (take(")") == 0) return wrong("expected )");
      return value;
    }
    skip_blanks();
    int64_t number = 0;
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    if (begin == end || *begin < '0' || *begin > '9') return wrong("expected a number or (");
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error != std::errc()) return wrong("the number is too large");
    at_ += static_cast<size_t>(rest - begin);
    numbers_.push_back(number);
    const Result<Fraction> value = reduced(number, 1);
    if (!value.ok()) return wrong("the number is too large");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<int64_t> numbers_;
};

}  // namespace

std::string Fraction::to_string() const {
  return std::to_string(top) + (is_whole() ? "" : "/" + std::to_string(bottom));
}

Result<Fraction> combine(Fraction left, char op, Fraction right) {
  const __int128 a = left.top;
  const __int128 b = left.bottom;
  const __int128 c = right.top;
  const __int128 d = right.bottom;
  switch (op) {
    case '+':
      return reduced(a * d + c * b, b * d);
    case '-':
      return reduced(a * d - c * b, b * d);
    case '*':
      return reduced(a * c, b * d);
    case '/':
      if (c == 0) return invalid_argument("division by zero");
      return reduced(a * d, b * c);
    default:
      return invalid_argument("unknown operator");
  }
}

Result<ExpressionValue> evaluate_expression(std::string_view text) {
  if (text.size() > kMaxBytes) return invalid_argument("the expression is longer than 1000 bytes");
  return Parser(text).parse();
}

}  // namespace mainspring

#include "mainspring/env/envs/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mainspring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string value_of(std::string_view text) {
  const Result<ExpressionValue> value = evaluate_expression(text);
  return value.ok() ? value->value.to_string() : "error: " + value.status().message();
}

TEST(Expression, FollowsPrecedenceAndParentheses) {
  EXPECT_EQ(value_of("1 + 2 * 3"), "7");
  EXPECT_EQ(value_of("(1 + 2) * 3"), "9");
  EXPECT_EQ(value_of("10 - 4 - 3"), "3");
  EXPECT_EQ(value_of("12 / 2 / 3"), "2");
  EXPECT_EQ(value_of("-2*-(3)"), "6");
  EXPECT_EQ(value_of("--2"), "2");
}

TEST(Expression, DivisionIsExact) {
  EXPECT_EQ(value_of("8 / 3 * 3"), "8");
  EXPECT_EQ(value_of("8 / -3"), "-8/3");
  EXPECT_EQ(value_of("1/3 + 1/6"), "1/2");
}

TEST(Expression, NamesItsNumbersInOrder) {
  EXPECT_THAT(evaluate_expression("25*(7-3)+7")->numbers, ElementsAre(25, 7, 3, 7));
}

TEST(Expression, BadTextIsRefusedWithItsPlace) {
  EXPECT_EQ(value_of(""), "error: column 1: expected a number or (");
  EXPECT_EQ(value_of("1 +"), "error: column 4: expected a number or (");
  EXPECT_EQ(value_of("(1"), "error: column 3: expected )");
  EXPECT_EQ(value_of("1 2"), "error: column 3: expected an operator or the end");
  EXPECT_THAT(value_of("1/(2-2)"), HasSubstr("division by zero"));
  EXPECT_THAT(value_of("2 ** 3"), HasSubstr("expected a number"));
  EXPECT_THAT(value_of("1.5"), HasSubstr("expected an operator"));
}

TEST(Expression, HostileTextIsBounded) {
  EXPECT_THAT(value_of("99999999999999999999"), HasSubstr("too large"));
  EXPECT_THAT(value_of("9223372036854775807"), HasSubstr("too large"));
  EXPECT_THAT(value_of("4000000000 * 4000000000 * 4000000000"), HasSubstr("too large"));
  EXPECT_THAT(value_of(std::string(400, '(') + "1" + std::string(400, ')')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(value_of(std::string(400, '-') + "1"), HasSubstr("nested too deeply"));
  EXPECT_THAT(value_of(std::string(1001, ' ')), HasSubstr("longer than"));
  std::string deep_enough = std::string(40, '(') + "1" + std::string(40, ')');
  EXPECT_EQ(value_of(deep_enough), "1");
}

}  // namespace
}  // namespace mainspring

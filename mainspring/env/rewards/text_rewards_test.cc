#include "mainspring/env/rewards/text_rewards.h"

#include <gtest/gtest.h>

#include "mainspring/env/rewards/answer_text.h"

namespace mainspring {
namespace {

TEST(FindAnswer, LooksInTheAskedPlace) {
  EXPECT_EQ(find_answer("  a b \n", AnswerPlace::kWhole), "a b");
  EXPECT_EQ(find_answer("one\ntwo \n\n", AnswerPlace::kLastLine), "two");
  EXPECT_EQ(find_answer(" \n", AnswerPlace::kLastLine), std::nullopt);
  EXPECT_EQ(find_answer("<answer>1</answer> no <answer> 2 </answer>.", AnswerPlace::kTag), "2");
  EXPECT_EQ(find_answer("<answer>1", AnswerPlace::kTag), std::nullopt);
  EXPECT_EQ(find_answer("1", AnswerPlace::kTag), std::nullopt);
}

TEST(FindAnswer, LastNumberReadsSignsCommasAndFractions) {
  const auto last = [](std::string_view text) {
    return find_answer(text, AnswerPlace::kLastNumber).value_or("none");
  };
  EXPECT_EQ(last("12 and 34."), "34");
  EXPECT_EQ(last("it is -3"), "-3");
  EXPECT_EQ(last("-3"), "-3");
  EXPECT_EQ(last("7-3"), "3");
  EXPECT_EQ(last("1,024,000 bytes"), "1024000");
  EXPECT_EQ(last("about 2.50!"), "2.50");
  EXPECT_EQ(last("3, 4"), "4");
  EXPECT_EQ(last("none at all"), "none");
  EXPECT_EQ(last(""), "none");
}

TEST(AnswerOf, AReplyCutAtTheLimitHasNone) {
  EXPECT_EQ(answer_of({.text = "7", .is_complete = true}, AnswerPlace::kWhole), "7");
  EXPECT_EQ(answer_of({.text = "7", .is_complete = false}, AnswerPlace::kWhole), std::nullopt);
}

TEST(ExactMatch, TrimsAndFoldsOnRequest) {
  EXPECT_TRUE(exact_match(" Paris\n", "Paris"));
  EXPECT_FALSE(exact_match("paris", "Paris"));
  EXPECT_TRUE(exact_match("paris", "PARIS", {.ignores_case = true}));
  EXPECT_FALSE(exact_match("a  b", "a b"));
  EXPECT_TRUE(exact_match("a \n b", "a b", {.ignores_blanks = true}));
  EXPECT_FALSE(exact_match("", "a"));
  EXPECT_TRUE(exact_match("", " "));
}

TEST(NumericMatch, ReadsNumbersAsPeopleWriteThem) {
  EXPECT_EQ(read_number("1,024"), 1024.0);
  EXPECT_EQ(read_number(" +2.5 "), 2.5);
  EXPECT_EQ(read_number("$3."), 3.0);
  EXPECT_EQ(read_number("40%"), 40.0);
  EXPECT_EQ(read_number("1e-3"), 1e-3);
  for (const char* text : {"", "x", "1 2", "inf", "nan", "0x10", "--1", "1.2.3", "."}) {
    EXPECT_EQ(read_number(text), std::nullopt) << text;
  }
}

TEST(NumericMatch, ToleranceIsRelativeAboveOne) {
  EXPECT_TRUE(numeric_match("3", "3.0", 0));
  EXPECT_FALSE(numeric_match("3.001", "3", 1e-4));
  EXPECT_TRUE(numeric_match("3.0002", "3", 1e-4));
  EXPECT_TRUE(numeric_match("1000.05", "1000", 1e-4));
  EXPECT_FALSE(numeric_match("x", "3", 1));
  // These two are one f64.
  EXPECT_FALSE(numeric_match("9007199254740993", "9007199254740992", 0));
}

}  // namespace
}  // namespace mainspring

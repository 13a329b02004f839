// The single-turn tasks: prompts have solutions that are rewarded, and nothing else is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "mainspring/env/envs/env_test_util.h"
#include "mainspring/env/envs/expression.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

std::string between(const std::string& text, const std::string& left, const std::string& right) {
  const size_t begin = text.find(left) + left.size();
  return text.substr(begin, text.find(right, begin) - begin);
}

TEST(Tasks, AreFunctionsOfSeedAndIndex) {
  for (const EnvironmentInfo& row : environment_table()) {
    const std::string name(row.name);
    if (row.settings.find("must be given") != std::string_view::npos) continue;
    const auto first = must_make(name);
    const auto second = must_make(name);
    std::set<std::string> texts;
    for (uint64_t i = 0; i < 8; ++i) {
      const Observation a = first->make_episode(5, i)->start();
      const Observation b = second->make_episode(5, i)->start();
      ASSERT_EQ(a.messages.size(), b.messages.size());
      EXPECT_EQ(a.tokens, b.tokens);
      for (size_t m = 0; m < a.messages.size(); ++m) {
        EXPECT_EQ(a.messages[m].content, b.messages[m].content);
      }
      if (!a.messages.empty()) texts.insert(a.messages.back().content);
    }
    // The secret of wordguess is not in its prompt.
    if (!texts.empty() && name != "wordguess") {
      EXPECT_GE(texts.size(), 6u) << name;
    }
  }
}

TEST(Arithmetic, TheValueIsRight) {
  const auto env = must_make("arithmetic", {{"operators", "+-*"}, {"digits", "3"}, {"terms", "4"}});
  for (uint64_t i = 0; i < 30; ++i) {
    const std::string question = question_of(*env, 1, i);
    EXPECT_THAT(question, HasSubstr("Answer with the number only."));
    const std::string value =
        evaluate_expression(between(question, "What is ", "?"))->value.to_string();
    EXPECT_EQ(reward_of(*env, value, 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, " " + value + "\n", 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, value + "1", 1, i), 0.0);
    EXPECT_EQ(reward_of(*env, "It is " + value, 1, i), 0.0);
    EXPECT_EQ(reward_of(*env, Action{.text = value, .is_complete = false}, 1, i), 0.0);
  }
}

TEST(Arithmetic, DivisionIsWhole) {
  const auto env = must_make("arithmetic", {{"operators", "/"}, {"answer_at", "last_number"}});
  for (uint64_t i = 0; i < 30; ++i) {
    const std::string question = question_of(*env, 1, i);
    const Fraction value = evaluate_expression(between(question, "What is ", "?"))->value;
    EXPECT_TRUE(value.is_whole());
    EXPECT_EQ(reward_of(*env, "3 or so, no: " + value.to_string() + ".", 1, i), 1.0);
  }
}

TEST(Arithmetic, RefusesWhatHasNoWholeAnswer) {
  const auto message = [](const EnvSettings& settings) {
    return make_environment("arithmetic", settings).status().message();
  };
  EXPECT_THAT(message({{"operators", "+^"}}), HasSubstr("expected some of + - * /"));
  EXPECT_THAT(message({{"operators", "/"}, {"terms", "3"}}), HasSubstr("\"terms\""));
  EXPECT_THAT(message({{"operators", "*"}, {"digits", "9"}, {"terms", "3"}}),
              HasSubstr("at most 18"));
}

TEST(Comparison, ExactlyOneSymbolIsRight) {
  const auto env = must_make("comparison", {{"digits", "2"}, {"decimals", "2"}});
  std::set<std::string> answers;
  for (uint64_t i = 0; i < 40; ++i) {
    const std::string question = question_of(*env, 1, i);
    const double a = std::stod(between(question, "Compare ", " and "));
    const double b = std::stod(between(question, " and ", ". "));
    const std::string right = a > b ? ">" : a < b ? "<" : "=";
    answers.insert(right);
    for (const std::string symbol : {">", "<", "="}) {
      EXPECT_EQ(reward_of(*env, symbol, 1, i), symbol == right ? 1.0 : 0.0) << question;
    }
    EXPECT_EQ(reward_of(*env, right + right, 1, i), 0.0);
  }
  EXPECT_EQ(answers.size(), 3u);
}

TEST(Sorting, TheSortedListIsRight) {
  const auto env = must_make("sorting", {{"order", "mixed"}, {"partial", "0.5"}});
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string question = question_of(*env, 1, i);
    std::istringstream in(between(question, "order: ", ". "));
    std::vector<int> numbers;
    for (int number = 0; in >> number; in.ignore(1)) numbers.push_back(number);
    ASSERT_EQ(numbers.size(), 4u);
    std::sort(numbers.begin(), numbers.end());
    if (question.find("descending") != std::string::npos) {
      std::reverse(numbers.begin(), numbers.end());
    }
    const auto listed = [&](const std::string& separator) {
      std::string text;
      for (const int number : numbers) {
        text += (text.empty() ? "" : separator) + std::to_string(number);
      }
      return text;
    };
    EXPECT_EQ(reward_of(*env, listed(", "), 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, listed(","), 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, "[" + listed(" ") + "]", 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, listed(", ") + ",", 1, i), 0.0);
    EXPECT_EQ(reward_of(*env, listed("; "), 1, i), 0.0);
    if (numbers[0] != numbers[1]) {
      std::swap(numbers[0], numbers[1]);
      EXPECT_EQ(reward_of(*env, listed(", "), 1, i), 0.25);  // two of four places, times 0.5
    }
    numbers.pop_back();
    EXPECT_EQ(reward_of(*env, listed(", "), 1, i), 0.0);
  }
}

/// A solution by search: all ways to join two values, again and again.
std::string solve(const std::vector<std::pair<int64_t, std::string>>& values, int64_t target) {
  for (const auto& [value, text] : values) {
    if (value == target) return text;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      if (i == j) continue;
      for (const char op : {'+', '-', '*', '/'}) {
        const int64_t a = values[i].first;
        const int64_t b = values[j].first;
        if (op == '/' && (b == 0 || a % b != 0)) continue;
        const int64_t value = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
        std::vector<std::pair<int64_t, std::string>> next;
        for (size_t k = 0; k < values.size(); ++k) {
          if (k != i && k != j) next.push_back(values[k]);
        }
        next.emplace_back(value, "(" + values[i].second + op + values[j].second + ")");
        const std::string found = solve(next, target);
        if (!found.empty()) return found;
      }
    }
  }
  return "";
}

TEST(Countdown, EveryTaskHasASolutionThatIsRewarded) {
  const auto env = must_make("countdown");
  for (uint64_t i = 0; i < 12; ++i) {
    const std::string question = question_of(*env, 1, i);
    const std::string target = between(question, "Make ", " from");
    std::istringstream in(between(question, "numbers ", " with"));
    std::vector<std::pair<int64_t, std::string>> values;
    for (int number = 0; in >> number; in.ignore(1)) {
      values.emplace_back(number, std::to_string(number));
    }
    ASSERT_EQ(values.size(), 4u);
    const std::string solution = solve(values, std::stoll(target));
    ASSERT_FALSE(solution.empty()) << question;
    EXPECT_EQ(reward_of(*env, solution, 1, i), 1.0) << question;
    EXPECT_EQ(reward_of(*env, solution + " = " + target, 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, solution + " + 0", 1, i), 0.0);  // 0 was not given
    EXPECT_EQ(reward_of(*env, target, 1, i), 0.0);             // never among the numbers
    EXPECT_EQ(reward_of(*env, values[0].second, 1, i), 0.1);
    EXPECT_EQ(reward_of(*env, values[0].second + "+", 1, i), 0.0);
  }
}

TEST(Countdown, ANumberCountsAtMostOnce) {
  const auto env = must_make("countdown", {{"numbers", "2"}, {"max_number", "1"}});
  ASSERT_EQ(between(question_of(*env), "Make ", " from"), "2");  // 1 is among the numbers
  EXPECT_EQ(reward_of(*env, "1+1"), 1.0);
  EXPECT_EQ(reward_of(*env, "1*1"), 0.1);
  EXPECT_EQ(reward_of(*env, "1+1+1-1"), 0.0);
}

TEST(Countdown, UseAllRefusesALeftover) {
  const auto env = must_make("countdown", {{"numbers", "2"}, {"max_number", "1"}, {"use", "all"}});
  EXPECT_EQ(reward_of(*env, "1"), 0.0);
  EXPECT_FALSE(make_environment("countdown", {{"max_target", "100"}}).ok());
}

}  // namespace
}  // namespace mainspring

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "mainspring/env/envs/env_test_util.h"

namespace mainspring {
namespace {

std::vector<int> numbers_of(const std::string& question) {
  std::istringstream in(question.substr(question.find(':') + 1));
  std::vector<int> numbers;
  for (int number = 0; in >> number; in.ignore(1)) numbers.push_back(number);
  return numbers;
}

TEST(JsonmaxEnvironment, PromptHasOneWorkedExample) {
  const auto env = must_make("jsonmax");
  const std::vector<EnvMessage> messages = env->make_episode(1, 0)->start().messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "Answer in JSON.");
  EXPECT_EQ(messages[1].role, "user");
  EXPECT_EQ(messages[1].content, "Which number is the largest: 17, 52, 31, 28?");
  EXPECT_EQ(messages[2].role, "assistant");
  EXPECT_EQ(messages[2].content, "{\"answer\": 52}");
  EXPECT_EQ(messages[3].role, "user");
  EXPECT_EQ(numbers_of(messages[3].content).size(), 4u);
}

TEST(JsonmaxEnvironment, NumbersDifferAndHaveTwoDigits) {
  const auto env = must_make("jsonmax", {{"numbers", "10"}});
  for (uint64_t i = 0; i < 50; ++i) {
    const std::vector<int> numbers = numbers_of(question_of(*env, 1, i));
    EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 10u);
    EXPECT_GE(*std::min_element(numbers.begin(), numbers.end()), 10);
    EXPECT_LE(*std::max_element(numbers.begin(), numbers.end()), 99);
  }
}

TEST(JsonmaxEnvironment, RewardsByTheReply) {
  const auto env = must_make("jsonmax");
  const std::vector<int> numbers = numbers_of(question_of(*env));
  const int most = *std::max_element(numbers.begin(), numbers.end());
  const std::string right = std::to_string(most);
  EXPECT_EQ(reward_of(*env, "{\"answer\": " + right + "}"), 1.0);
  EXPECT_EQ(reward_of(*env, " {\"answer\":" + right + "}\n"), 1.0);
  EXPECT_EQ(reward_of(*env, "{\"answer\": " + std::to_string(most - 1) + "}"), 0.1);
  EXPECT_EQ(reward_of(*env, "{\"answer\": \"" + right + "\"}"), 0.1);
  EXPECT_EQ(reward_of(*env, "{\"answer\": " + right + ".0}"), 0.1);
  EXPECT_EQ(reward_of(*env, "{\"answer\": true}"), 0.1);
  EXPECT_EQ(reward_of(*env, "{\"answer\": " + right + ", \"why\": 1}"), 0.0);
  EXPECT_EQ(reward_of(*env, "{\"number\": " + right + "}"), 0.0);
  EXPECT_EQ(reward_of(*env, right), 0.0);
  EXPECT_EQ(reward_of(*env, "The answer is {\"answer\": " + right + "}"), 0.0);
  EXPECT_EQ(reward_of(*env, ""), 0.0);
}

TEST(JsonmaxEnvironment, AReplyCutAtTheLimitEarnsNothing) {
  const auto env = must_make("jsonmax");
  const std::vector<int> numbers = numbers_of(question_of(*env));
  const int most = *std::max_element(numbers.begin(), numbers.end());
  const std::string right = "{\"answer\": " + std::to_string(most) + "}";
  EXPECT_EQ(reward_of(*env, Action{.text = right, .tokens = {}, .is_complete = false}), 0.0);
}

TEST(JsonmaxEnvironment, RefusesNumbersOutOfBounds) {
  EXPECT_FALSE(make_environment("jsonmax", {{"numbers", "1"}}).ok());
  EXPECT_FALSE(make_environment("jsonmax", {{"numbers", "11"}}).ok());
}

}  // namespace
}  // namespace mainspring

#include <gtest/gtest.h>

#include <map>

#include "mainspring/env/envs/env_test_util.h"

namespace mainspring {
namespace {

/// The reward of `text` in the first task whose prompt is that of one rule beginning so.
double reward_by_rule(const std::string& rule, const std::string& text) {
  const auto env = must_make("format", {{"rules", "1"}, {"partial", "0"}});
  for (uint64_t i = 0; i < 3000; ++i) {
    if (question_of(*env, 1, i).find(rule) != std::string::npos) {
      return reward_of(*env, text, 1, i);
    }
  }
  ADD_FAILURE() << "no task has the rule " << rule;
  return -1;
}

TEST(Format, EachRuleIsCheckedAsItSays) {
  struct Case {
    const char* rule;
    const char* kept;
    const char* broken;
  };
  const Case cases[] = {
      {"Use exactly 3 words.", " the calm sea ", "the sea"},
      {"Use at most 5 words.", "one two three four five", "one two three four five six"},
      {"Write exactly 2 lines.", "a\n\nb", "a\nb\nc"},
      {"Write a list of exactly 2 lines", "- a\n- b", "- a\n* b"},
      {"Use no capital letters.", "all small", "One is not"},
      {"Use capital letters only.", "ALL 3!", "ALL but"},
      {"Use capital letters only.", "A", "123"},
      {"Use no commas.", "a b", "a, b"},
      {"Do not use the letter e.", "a calm bay", "THE bay"},
      {"End with *** and nothing behind it.", "done ***\n", "*** done"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(reward_by_rule(each.rule, each.kept), 1.0) << each.rule << " " << each.kept;
    EXPECT_EQ(reward_by_rule(each.rule, each.broken), 0.0) << each.rule << " " << each.broken;
    EXPECT_EQ(reward_by_rule(each.rule, ""), 0.0) << each.rule;
  }
}

TEST(Format, PartsAreTheShareAndAll) {
  const auto env = must_make("format", {{"rules", "4"}, {"partial", "0.5"}});
  // Any reply keeps between 0 and 4 rules: half the credit is the share, half comes with all.
  std::map<double, int> rewards;
  for (uint64_t i = 0; i < 300; ++i) ++rewards[reward_of(*env, "up and **\n###", 1, i)];
  EXPECT_GE(rewards.size(), 3u);
  for (const auto& [reward, count] : rewards) {
    EXPECT_TRUE(reward == 0.0 || reward == 0.125 || reward == 0.25 || reward == 0.375 ||
                reward == 1.0)
        << reward;
  }
  EXPECT_EQ(reward_of(*env, Action{.text = "x", .is_complete = false}), 0.0);
}

}  // namespace
}  // namespace mainspring

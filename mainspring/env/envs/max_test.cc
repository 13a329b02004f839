#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "mainspring/env/envs/env_test_util.h"

namespace mainspring {
namespace {

Action tokens(std::vector<int32_t> ids) { return {.text = "", .tokens = std::move(ids)}; }

TEST(MaxEnvironment, AnySeedsFirstHundredTasksAreAllPairs) {
  const auto env = must_make("max");
  ASSERT_EQ(env->num_tasks(), 100);
  for (const uint64_t seed : {uint64_t{0}, uint64_t{17}}) {
    std::set<std::vector<int32_t>> prompts;
    for (uint64_t i = 0; i < 100; ++i) {
      const Observation prompt = env->make_episode(seed, i)->start();
      EXPECT_TRUE(prompt.messages.empty());
      ASSERT_EQ(prompt.tokens.size(), 3u);
      EXPECT_EQ(prompt.tokens[2], 10);
      prompts.insert(prompt.tokens);
    }
    EXPECT_EQ(prompts.size(), 100u);
    EXPECT_EQ(*prompts.begin(), (std::vector<int32_t>{0, 0, 10}));
    EXPECT_EQ(*prompts.rbegin(), (std::vector<int32_t>{9, 9, 10}));
  }
}

TEST(MaxEnvironment, OnlyTheLargerDigitWithEndIsRewarded) {
  const auto env = must_make("max");
  for (uint64_t i = 0; i < 100; ++i) {
    const std::vector<int32_t> prompt = env->make_episode(3, i)->start().tokens;
    const int32_t right = std::max(prompt[0], prompt[1]);
    for (int32_t digit = 0; digit < 10; ++digit) {
      EXPECT_EQ(reward_of(*env, tokens({digit, 11}), 3, i), digit == right ? 1.0 : 0.0);
    }
    EXPECT_EQ(reward_of(*env, tokens({right}), 3, i), 0.0);
    EXPECT_EQ(reward_of(*env, tokens({right, right, 11}), 3, i), 0.0);
    EXPECT_EQ(reward_of(*env, tokens({}), 3, i), 0.0);
  }
}

TEST(MaxEnvironment, SpeaksTokensOfItsOwnVocabulary) {
  const auto env = must_make("max");
  EXPECT_EQ(env->vocabulary(), 12);
  EXPECT_EQ(env->end_token(), 11);
  EXPECT_EQ(env->task_of(1, 2), "max");
  EXPECT_FALSE(make_environment("max", {{"numbers", "3"}}).ok());
}

}  // namespace
}  // namespace mainspring

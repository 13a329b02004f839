// The multi-turn environments, turn by turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mainspring/env/envs/env_test_util.h"
#include "mainspring/env/envs/expression.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

Action say(std::string text) { return {.text = std::move(text)}; }

std::string expression_of(Environment& env) {
  const std::string question = question_of(env);
  return question.substr(8, question.find(". You") - 8);  // behind "Compute "
}

TEST(Calculator, ToolAnswersAndTheAnswerEnds) {
  const auto env = must_make("calculator", {{"terms", "3"}});
  const auto episode = env->make_episode(1, 0);
  episode->start();
  const std::string expression = expression_of(*env);
  const std::string value = evaluate_expression(expression)->value.to_string();

  const Feedback called = episode->step(say("Let me see. <tool>" + expression + "</tool>"));
  EXPECT_FALSE(called.is_done);
  EXPECT_EQ(called.rewards.at("tool"), 0.1);
  ASSERT_EQ(called.next.messages.size(), 1u);
  EXPECT_EQ(called.next.messages[0].role, "tool");
  EXPECT_EQ(called.next.messages[0].content, value);

  const Feedback again = episode->step(say("<tool>1+1</tool>"));
  EXPECT_EQ(sum_of(again.rewards), 0.0);  // credited once
  EXPECT_EQ(again.next.messages[0].content, "2");

  const Feedback done = episode->step(say("<answer>" + value + "</answer>"));
  EXPECT_TRUE(done.is_done);
  EXPECT_TRUE(done.next.messages.empty());
  EXPECT_EQ(done.rewards.at("right"), 1.0);
}

TEST(Calculator, ABadCallIsToldWhyAndGoesOn) {
  const auto env = must_make("calculator", {{"tool_role", "user"}});
  const auto episode = env->make_episode(1, 0);
  episode->start();
  const Feedback called = episode->step(say("<tool>2 +</tool>"));
  EXPECT_FALSE(called.is_done);
  EXPECT_EQ(sum_of(called.rewards), 0.0);
  EXPECT_EQ(called.next.messages[0].role, "user");
  EXPECT_THAT(called.next.messages[0].content, HasSubstr("error: column 4"));
}

TEST(Calculator, EndsWithoutAnswerAtTheLastTurnAndWithoutACall) {
  const auto env = must_make("calculator", {{"turns", "2"}});
  const auto episode = env->make_episode(1, 0);
  episode->start();
  EXPECT_FALSE(episode->step(say("<tool>1</tool>")).is_done);
  const Feedback last = episode->step(say("<tool>1</tool>"));
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(sum_of(last.rewards), 0.0);

  EXPECT_TRUE(env->make_episode(1, 0)->step(say("I do not know")).is_done);
  const auto cut = env->make_episode(1, 0)->step({.text = "<tool>1</tool>", .is_complete = false});
  EXPECT_TRUE(cut.is_done);
}

TEST(Wordguess, MarksLeadToTheWord) {
  const auto env = must_make("wordguess");
  // Find the secret by trying the words that the marks of each task leave: here by brute force, a
  // guess of a fresh episode each, over the letters.
  std::string word(5, '?');
  for (size_t place = 0; place < 5; ++place) {
    for (char letter = 'a'; letter <= 'z' && word[place] == '?'; ++letter) {
      const auto episode = env->make_episode(3, 4);
      episode->start();
      const std::string answer =
          episode->step(say(std::string(5, letter))).next.messages.at(0).content;
      if (answer.substr(7)[place] == 'G') word[place] = letter;
    }
  }
  ASSERT_EQ(word.find('?'), std::string::npos);
  const auto episode = env->make_episode(3, 4);
  episode->start();
  const Feedback wrong = episode->step(say("My guess: ZZZZZ!"));
  EXPECT_FALSE(wrong.is_done);
  EXPECT_EQ(wrong.next.messages[0].content, "zzzzz: -----\n5 guesses left.");
  const Feedback solved = episode->step(say(word));
  EXPECT_TRUE(solved.is_done);
  EXPECT_EQ(solved.rewards.at("solved"), 1.0);
  EXPECT_EQ(solved.rewards.at("progress"), 0.0);
}

TEST(Wordguess, NoGuessCostsATurnAndTheLastTurnPaysProgress) {
  const auto env = must_make("wordguess", {{"guesses", "2"}, {"progress", "0.5"}});
  const auto episode = env->make_episode(3, 4);
  episode->start();
  const Feedback first = episode->step(say("hm"));
  EXPECT_FALSE(first.is_done);
  EXPECT_EQ(first.next.messages[0].content, "That is no word of five letters.\n1 guess left.");
  const Feedback last = episode->step(say("qqqqq"));
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(sum_of(last.rewards), 0.0);  // no place was right
  const Feedback cut = env->make_episode(3, 4)->step({.text = "crane", .is_complete = false});
  EXPECT_TRUE(cut.is_done);
  EXPECT_EQ(sum_of(cut.rewards), 0.0);
}

TEST(Wordguess, EverySecretHasFiveLetters) {
  const auto env = must_make("wordguess", {{"guesses", "1"}, {"progress", "1"}});
  ASSERT_GE(env->num_tasks(), 200);
  for (int64_t i = 0; i < env->num_tasks(); ++i) {
    // A word of one letter repeated is right in as many places as the secret has it: over the
    // alphabet that makes all five.
    double places = 0;
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      places += reward_of(*env, std::string(5, letter), 0, static_cast<uint64_t>(i));
    }
    EXPECT_NEAR(places, 1.0, 1e-12) << i;
  }
}

}  // namespace
}  // namespace mainspring

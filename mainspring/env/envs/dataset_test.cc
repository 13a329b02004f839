#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mainspring/env/envs/env_test_util.h"
#include "mainspring/env/rewards/reward_sum.h"
#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DatasetTest : public testing::Test {
 protected:
  std::unique_ptr<Environment> open(const std::string& rows, EnvSettings settings = {}) {
    settings["path"] = dir_.write("tasks.jsonl", rows);
    return must_make("dataset", settings);
  }
  std::string refusal(const std::string& rows, EnvSettings settings = {}) {
    settings["path"] = dir_.write("tasks.jsonl", rows);
    const auto made = make_environment("dataset", settings);
    return made.ok() ? "made" : made.status().message();
  }

  TestDir dir_;
};

TEST_F(DatasetTest, RowsAreTasks) {
  const auto env = open(
      "{\"prompt\": \"2+2?\", \"answer\": \"4\", \"task\": \"sum\", \"note\": 1}\n\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
      "\"content\": \"3+3?\"}], \"answer\": 6}\n",
      {{"system", "Be brief."}});
  EXPECT_EQ(env->num_tasks(), 2);
  std::set<std::string> tasks;
  for (uint64_t i = 0; i < 2; ++i) {
    const auto messages = env->make_episode(1, i)->start().messages;
    EXPECT_EQ(messages[0].content, "Be brief.");
    const bool is_first = messages.back().content == "2+2?";
    EXPECT_EQ(messages.size(), is_first ? 2u : 3u);
    EXPECT_EQ(reward_of(*env, is_first ? "4" : " 6\n", 1, i), 1.0);
    EXPECT_EQ(reward_of(*env, is_first ? "6" : "4", 1, i), 0.0);
    EXPECT_EQ(env->make_episode(1, i + 2)->start().messages.size() == 2,
              env->task_of(1, i + 2) == "sum");
    tasks.insert(env->task_of(1, i));
  }
  EXPECT_EQ(tasks, (std::set<std::string>{"dataset", "sum"}));
}

TEST_F(DatasetTest, RewardsAddUpByName) {
  const auto env = open("{\"prompt\": \"pi?\", \"answer\": \"3.14\"}\n",
                        {{"rewards", "numeric=1, regex=0.25, exact=-0.5"},
                         {"pattern", "[0-9.]+"},
                         {"tolerance", "0.01"}});
  const auto rewards = [&](const std::string& text) {
    return env->make_episode(1, 0)->step({.text = text}).rewards;
  };
  using Parts = std::map<std::string, double>;
  EXPECT_EQ(rewards("3.15"), (Parts{{"exact", 0.0}, {"numeric", 1.0}, {"regex", 0.25}}));
  EXPECT_EQ(rewards("3.14"), (Parts{{"exact", -0.5}, {"numeric", 1.0}, {"regex", 0.25}}));
  EXPECT_EQ(rewards("none"), (Parts{{"exact", 0.0}, {"numeric", 0.0}, {"regex", 0.0}}));
  EXPECT_EQ(sum_of(env->make_episode(1, 0)->step({.text = "3", .is_complete = false}).rewards), 0);
}

TEST_F(DatasetTest, PatternsAndSchemasMayStandInRows) {
  const auto env =
      open("{\"prompt\": \"?\", \"pattern\": \"a+\", \"schema\": {\"type\": \"integer\"}}\n",
           {{"rewards", "regex=1, json_schema=2"}, {"pattern", "b+"}});
  EXPECT_EQ(reward_of(*env, "aaa"), 1.0);
  EXPECT_EQ(reward_of(*env, "bbb"), 0.0);
  EXPECT_EQ(reward_of(*env, "12"), 2.0);
  const auto shared =
      open("{\"prompt\": \"?\"}\n",
           {{"rewards", "json_schema"}, {"schema", dir_.write("s.json", "{\"type\": \"array\"}")}});
  EXPECT_EQ(reward_of(*shared, "[1]"), 1.0);
  EXPECT_EQ(reward_of(*shared, "1"), 0.0);
}

TEST_F(DatasetTest, CodeIsRunAgainstTheRowsTests) {
  const std::string row =
      "{\"prompt\": \"double\", \"tests\": [\"assert f(1) == 2\", \"assert f(2) == 4\"]}\n";
  const auto env = open(row, {{"rewards", "tests"}, {"test_seconds", "60"}});
  EXPECT_EQ(reward_of(*env, "```python\ndef f(x): return 2 * x\n```"), 1.0);
  EXPECT_EQ(reward_of(*env, "```python\ndef f(x): return x + 1\n```"), 0.5);
  EXPECT_EQ(reward_of(*env, "I cannot"), 0.0);
  const auto strict =
      open(row, {{"rewards", "tests"}, {"test_seconds", "60"}, {"test_credit", "all"}});
  EXPECT_EQ(reward_of(*strict, "def f(x): return x + 1"), 0.0);
}

TEST_F(DatasetTest, RefusesRowsThatCannotBeJudgedByPlace) {
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"answer\": \"b\"}\n{\"prompt\": \"a\"}\n"),
              AllOf(HasSubstr("tasks.jsonl:2: answer"), HasSubstr("\"exact\" needs")));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"answer\": \"b\"}\n", {{"rewards", "numeric"}}),
              HasSubstr("expected a number for the reward \"numeric\", got \"b\""));
  EXPECT_THAT(refusal("{\"answer\": \"b\"}\n"), HasSubstr("one of \"prompt\" and \"messages\""));
  EXPECT_THAT(refusal("{\"messages\": [{\"role\": \"user\"}], \"answer\": \"b\"}\n"),
              HasSubstr("content"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\"}\n", {{"rewards", "regex"}}),
              HasSubstr("there is no setting \"pattern\""));
  EXPECT_THAT(refusal("{\"prompt\": \"a\"}\n", {{"rewards", "json_schema"}}),
              HasSubstr("there is no setting \"schema\""));
  EXPECT_THAT(
      refusal("{\"prompt\": \"a\", \"schema\": {\"typ\": 1}}\n", {{"rewards", "json_schema"}}),
      HasSubstr("the nearest is \"type\""));
  EXPECT_THAT(refusal("\n"), HasSubstr("has no rows"));
  EXPECT_THAT(refusal("{\n"), HasSubstr("tasks.jsonl:1"));
  EXPECT_THAT(make_environment("dataset", {{"path", "/no/file"}}).status().message(),
              HasSubstr("/no/file"));
  EXPECT_THAT(refusal("{}\n", {{"rewards", "exat"}}), HasSubstr("the nearest is \"exact\""));
  EXPECT_THAT(refusal("{}\n", {{"pattern", "("}}), HasSubstr("missing )"));
}

TEST(RewardWeights, AreReadOrRefused) {
  const std::vector<std::string> known = {"exact", "regex"};
  const auto weights = parse_reward_weights("exact, regex = -0.5", known).value();
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].weight, 1.0);
  EXPECT_EQ(weights[1].name, "regex");
  EXPECT_EQ(weights[1].weight, -0.5);
  for (const char* text : {"", "exact,", "exact,exact", "exact=0", "exact=x", "exact="}) {
    EXPECT_FALSE(parse_reward_weights(text, known).ok()) << text;
  }
}

}  // namespace
}  // namespace mainspring

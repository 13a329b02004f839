// The adapters of python/mainspring_env against libraries that stand in for the real ones
// (fixture_python/). The real reasoning-gym is checked by python/check_reasoning_gym.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "mainspring/env/envs/env_test_util.h"
#include "mainspring/env/python_program.h"
#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

std::string source_folder() { return std::getenv("MS_SOURCE_DIR"); }

class PythonGyms : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = source_folder() + "/mainspring/env/worker/fixture_python";
    ::setenv("PYTHONPATH", path.c_str(), 1);
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }
  void TearDown() override { ::unsetenv("PYTHONPATH"); }

  static std::string refusal(const std::string& name, const EnvSettings& settings) {
    const auto made = make_environment(name, settings);
    return made.ok() ? "made" : made.status().message();
  }
};

TEST_F(PythonGyms, ReasoningGymItemsAndScoresAreTheGoldenOnes) {
  const Result<Json> golden = read_json_file(source_folder() + "/tests/golden/reasoning_gym.json");
  ASSERT_TRUE(golden.ok());
  int checked = 0;
  for (const std::string name : {"leg_counting", "spell_backward"}) {
    const auto env = must_make("reasoning-gym", {{"dataset", name}});
    EXPECT_EQ(env->name(), "reasoning-gym/" + name);
    for (const Json& task : (*golden)["tasks"]) {
      if (task["task"] != name) continue;
      const auto seed = task["seed"].get<uint64_t>();
      for (const Json& item : task["items"]) {
        const auto index = item["index"].get<uint64_t>();
        EXPECT_EQ(question_of(*env, seed, index), item["question"].get<std::string>());
        for (const auto& [answer, score] : item["scores"].items()) {
          if (answer == "<null>") continue;
          EXPECT_DOUBLE_EQ(reward_of(*env, answer, seed, index), score.get<double>()) << answer;
          ++checked;
        }
        const std::string right = item["answer"];
        EXPECT_EQ(reward_of(*env, Action{.text = right, .is_complete = false}, seed, index), 0.0);
      }
    }
  }
  EXPECT_EQ(checked, 60);
}

TEST_F(PythonGyms, ReasoningGymReadsTheAnswerWhereItIsAsked) {
  const auto score = [&](const std::string& place, const std::string& reply) {
    const auto env = must_make("reasoning-gym", {{"dataset", "leg_counting"},
                                                 {"answer_at", place},
                                                 {"system", "Be brief."},
                                                 {"config", "{\"min_animals\": 3}"}});
    const auto messages = env->make_episode(42, 0)->start().messages;
    EXPECT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[0].role, "system");
    EXPECT_EQ(messages[0].content, "Be brief.");
    return reward_of(*env, reply, 42, 0);  // the answer is 100
  };
  EXPECT_EQ(score("trimmed", " 100\n"), 1.0);
  EXPECT_EQ(score("last_line", "So it is\n100\n"), 1.0);
  EXPECT_EQ(score("tag", "<answer>7</answer> <answer> 100 </answer>"), 1.0);
  EXPECT_EQ(score("tag", "100"), 0.0);
}

TEST_F(PythonGyms, WhatIsWrongIsToldBeforeWorkStarts) {
  EXPECT_THAT(refusal("reasoning-gym", {}), HasSubstr("\"dataset\": must be given"));
  EXPECT_THAT(refusal("reasoning-gym", {{"dataset", "leg_count"}}),
              HasSubstr("no data set 'leg_count'; the nearest is 'leg_counting'"));
  EXPECT_THAT(refusal("reasoning-gym", {{"dataset", "leg_counting"}, {"config", "{\"legs\": 3}"}}),
              HasSubstr("unexpected keyword 'legs'"));
  EXPECT_THAT(refusal("reasoning-gym", {{"dataset", "leg_counting"}, {"config", "{\"seed\": 3}"}}),
              HasSubstr("the seed is given with each task"));
  EXPECT_THAT(refusal("reasoning-gym", {{"dataset", "x"}, {"adapter", "/nowhere"}}),
              HasSubstr("no mainspring_env in \"/nowhere\""));
  EXPECT_THAT(refusal("reasoning-gym", {{"dataset", "x"}, {"python", "false"}}),
              HasSubstr("\"python\": \"false\" is no Python that runs"));
  EXPECT_THAT(refusal("gymnasium", {{"id", "Steer-v0"}}), HasSubstr("neither Text nor Discrete"));
}

TEST_F(PythonGyms, ServeAnswersForAnEnvironmentOfOnesOwn) {
  TestDir dir;
  const std::string program = dir.write("guess.py", R"py(
from mainspring_env import Turn, serve

class Guess:
    name = "guess"
    num_tasks = 5
    def __init__(self, settings):
        self.most = settings["most"]
    def episode(self, seed, index):
        return Episode(index % self.most)

class Episode:
    def __init__(self, secret):
        self.secret = secret
    def start(self):
        print("printed, not answered")
        return "guess"
    def step(self, text, is_complete):
        if text == "raise":
            raise KeyError("secret")
        if text == "fill":
            raise MemoryError
        right = text == str(self.secret)
        return Turn(right, {"right": float(right)}, [{"role": "tool", "content": "no"}])

serve(Guess)
)py");
  const auto env = must_make("worker", {{"command", find_python("python3").value() + " " + program},
                                        {"settings", "{\"most\": 3}"}});
  EXPECT_EQ(env->name(), "guess");
  EXPECT_EQ(env->num_tasks(), 5);
  const auto episode = env->make_episode(0, 4);
  EXPECT_EQ(episode->start().messages.at(0).content, "guess");
  EXPECT_EQ(episode->step({.text = "0"}).next.messages.at(0).role, "tool");
  EXPECT_EQ(episode->step({.text = "1"}).rewards.at("right"), 1.0);
  const auto outcome = [&](const std::string& text) {
    const auto each = env->make_episode(0, 0);
    each->start();
    const Feedback feedback = each->step({.text = text});
    return std::string(outcome_name(feedback.outcome)) + ": " + feedback.message;
  };
  EXPECT_EQ(outcome("raise"), "exception: KeyError: 'secret'");
  EXPECT_THAT(outcome("fill"), HasSubstr("memory: worker 0: out of memory"));
  EXPECT_EQ(outcome("0"), "ok: ");
  EXPECT_THAT(refusal("worker", {{"command", find_python("python3").value() + " " + program}}),
              HasSubstr("exception: KeyError: 'most'"));
}

TEST_F(PythonGyms, GymnasiumPlaysDiscreteActions) {
  const auto env =
      must_make("gymnasium", {{"id", "Line-v0"}, {"config", "{\"size\": 3}"}, {"max_turns", "6"}});
  EXPECT_EQ(env->name(), "gymnasium/Line-v0");
  const auto episode = env->make_episode(1, 0);
  const std::string place = episode->start().messages.at(0).content;
  EXPECT_EQ(question_of(*env, 1, 0), place);
  const int steps = 3 - (place.back() - '0');
  const Feedback none = episode->step({.text = "I go to 7"});
  EXPECT_FALSE(none.is_done);
  EXPECT_THAT(none.next.messages.at(0).content, HasSubstr("a number from 1 to 2"));
  Feedback last;
  for (int i = 0; i < steps; ++i) {
    EXPECT_FALSE(last.is_done && i > 0);
    last = episode->step({.text = "2"});
  }
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(sum_of(last.rewards), 1.0);
}

TEST_F(PythonGyms, GymnasiumEndsAtTheLastTurnAndAtACut) {
  const auto env = must_make("gymnasium", {{"id", "Line-v0"}, {"max_turns", "2"}});
  const auto episode = env->make_episode(1, 0);
  episode->start();
  EXPECT_FALSE(episode->step({.text = "1"}).is_done);
  EXPECT_TRUE(episode->step({.text = "1"}).is_done);
  const auto cut = env->make_episode(1, 0);
  cut->start();
  EXPECT_TRUE(cut->step({.text = "2", .is_complete = false}).is_done);
}

TEST_F(PythonGyms, GymnasiumPlaysTextActions) {
  const auto env = must_make("gymnasium", {{"id", "Repeat-v0"}});
  EXPECT_EQ(reward_of(*env, "hi"), 1.0);
  EXPECT_EQ(reward_of(*env, "ho"), 0.0);
}

}  // namespace
}  // namespace mainspring

// The client against a server that answers as a live one did (tests/golden/openenv_wire.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "mainspring/env/envs/env_test_util.h"
#include "mainspring/io/json.h"
#include "mainspring/net/test_websocket_server.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

/// What the live server said to a message of this type and text; the first of several.
std::string recorded(const Json& wire, const std::string& type, const std::string& text) {
  for (const Json& entry : wire["websocket"]) {
    if (!entry.contains("ws_send") || !entry["ws_send"].is_object()) continue;
    const Json& sent = entry["ws_send"];
    if (sent["type"] != type || !entry.contains("ws_recv")) continue;
    if (type == "step" && sent["data"].value("text", "") != text) continue;
    return json_text(entry["ws_recv"]);
  }
  return "not json";
}

class OpenEnv : public testing::Test {
 protected:
  OpenEnv()
      : wire_(read_json_file(std::string(std::getenv("MS_SOURCE_DIR")) +
                             "/tests/golden/openenv_wire.json")
                  .value()) {}

  /// As recorded, or as the text asks: "hang", "cut", "noise".
  std::optional<std::string> answer(const std::string& message) {
    const Json request = parse_json(message, "request").value();
    const Json data = request["data"];
    const std::string text = data.value("text", "");
    if (request["type"] == "reset") last_reset_ = json_text(data);
    if (text == "hang") return "";
    if (text == "cut") return std::nullopt;
    if (text == "noise") return "[1]";
    return recorded(wire_, request["type"], text);
  }
  EnvSettings settings(const TestWebSocketServer& server) {
    return {{"url", server.url()}, {"observation_field", "prompt"}};
  }

  Json wire_;
  std::string last_reset_;
  std::atomic<int> num_connections_{0};
  TestWebSocketServer server_{
      {.on_connect =
           [this] {
             ++num_connections_;
             return std::optional<std::string>();
           },
       .on_message = [this](const std::string& message) { return answer(message); }}};
};

TEST_F(OpenEnv, PlaysTheRecordedEpisode) {
  const auto env = must_make("openenv", settings(server_));
  const auto episode = env->make_episode(7, 3);
  const Observation first = episode->start();
  ASSERT_EQ(first.messages.size(), 1u);
  EXPECT_EQ(first.messages[0].content, "count to 4");
  EXPECT_THAT(last_reset_, HasSubstr("\"episode_id\":\"7-3\""));
  const Feedback one = episode->step({.text = "1"});
  EXPECT_FALSE(one.is_done);
  EXPECT_EQ(one.rewards.at("reward"), 1.0);
  EXPECT_EQ(one.next.messages.at(0).content, "turn 1");
  EXPECT_FALSE(episode->step({.text = "3"}).is_done);
  const Feedback last = episode->step({.text = "4"});
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(last.rewards.at("reward"), 1.0);
  EXPECT_TRUE(last.next.messages.empty());
}

TEST_F(OpenEnv, ConnectionsAreUsedAgain) {
  const auto env = must_make("openenv", settings(server_));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(reward_of(*env, "4", 1, i), 1.0);
  EXPECT_EQ(num_connections_, 1);
  const auto first = env->make_episode(1, 0);
  const auto second = env->make_episode(1, 1);
  first->start();
  second->start();
  EXPECT_EQ(num_connections_, 2);
}

TEST_F(OpenEnv, FaultsAreOutcomes) {
  EnvSettings given = settings(server_);
  const auto outcome = [&](const std::string& text, const std::string& deadline) {
    given["deadline_s"] = deadline;
    const auto env = must_make("openenv", given);
    const auto episode = env->make_episode(1, 0);
    episode->start();
    const Feedback feedback = episode->step({.text = text});
    EXPECT_TRUE(feedback.rewards.empty()) << text;
    return std::string(outcome_name(feedback.outcome)) + ": " + feedback.message;
  };
  EXPECT_EQ(outcome("boom", "60"), "exception: EXECUTION_ERROR: env exploded");
  EXPECT_THAT(outcome("hang", "1"), HasSubstr("timeout: "));
  EXPECT_THAT(outcome("cut", "60"), HasSubstr("crash: "));
  EXPECT_THAT(outcome("noise", "60"), HasSubstr("garbage: "));
  given["observation_field"] = "board";
  EXPECT_THAT(outcome("1", "60"), HasSubstr("garbage: "));
}

TEST_F(OpenEnv, AMessageTheServerDoesNotTakeIsToldWithItsReason) {
  EnvSettings given = settings(server_);
  given["action_field"] = "txt";
  const auto env = must_make("openenv", given);
  const auto episode = env->make_episode(1, 0);
  episode->start();
  const Feedback feedback = episode->step({.text = "1"});
  EXPECT_EQ(feedback.outcome, EpisodeOutcome::kException);
  EXPECT_THAT(feedback.message, HasSubstr("VALIDATION_ERROR: Invalid message [{"));
  EXPECT_THAT(feedback.message, HasSubstr("Field required"));
}

TEST_F(OpenEnv, AFullServerIsToldByItsOwnWords) {
  std::string full;
  for (const Json& entry : wire_["websocket"]) {
    if (entry.contains("note")) full = json_text(entry["ws_recv"]);
  }
  TestWebSocketServer server({.on_connect = [full] { return std::optional(full); },
                              .on_message = [](const std::string&) { return ""; }});
  const auto env = must_make("openenv", settings(server));
  const auto episode = env->make_episode(1, 0);
  episode->start();
  const Feedback feedback = episode->step({.text = "1"});
  EXPECT_NE(feedback.outcome, EpisodeOutcome::kOk);
  EXPECT_THAT(feedback.message, HasSubstr("CAPACITY_REACHED"));
}

TEST_F(OpenEnv, WhatIsWrongIsToldBeforeWorkStarts) {
  const auto refusal = [](const EnvSettings& given) {
    return make_environment("openenv", given).status().message();
  };
  EXPECT_THAT(refusal({}), HasSubstr("\"url\": must be given"));
  EXPECT_THAT(refusal({{"url", "http://x"}}), HasSubstr("expected a URL such as"));
  EXPECT_THAT(refusal({{"url", "ws://127.0.0.1:1/ws"}}), HasSubstr("cannot connect"));
}

TEST_F(OpenEnv, ACutReplyIsNoAction) {
  const auto env = must_make("openenv", settings(server_));
  const auto episode = env->make_episode(1, 0);
  episode->start();
  const Feedback feedback = episode->step({.text = "4", .is_complete = false});
  EXPECT_TRUE(feedback.is_done);
  EXPECT_EQ(feedback.rewards.at("reward"), 0.0);
}

}  // namespace
}  // namespace mainspring

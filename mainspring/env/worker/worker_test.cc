// Foreign environments and their faults, driven by fixture_worker.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "mainspring/env/envs/env_test_util.h"
#include "mainspring/env/python_program.h"
#include "mainspring/env/worker/worker_messages.h"
#include "mainspring/env/worker/worker_pool.h"

namespace mainspring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string source_folder() { return std::getenv("MS_SOURCE_DIR"); }
std::string fixture() { return source_folder() + "/mainspring/env/worker/fixture_worker.py"; }
std::string python() {
  static const std::string path = find_python("python3").value();
  return path;
}
std::string fixture_command() { return python() + " -I -S " + fixture(); }

WorkerPoolOptions fixture_options(Json settings = Json::object()) {
  WorkerPoolOptions options;
  options.worker.command = {python(), "-I", "-S", fixture()};
  options.worker.settings = std::move(settings);
  options.worker.memory_bytes = int64_t{256} << 20;
  options.deadline_seconds = 60;  // a fault is seen at once; only a hang waits
  options.first_backoff_seconds = 0.01;
  return options;
}

Json step_of(const HostedEpisode& episode, const std::string& text) {
  return {{"type", "step"}, {"episode", episode.id}, {"text", text}, {"is_complete", true}};
}

WorkerAnswer act(WorkerPool& pool, HostedEpisode& episode, const std::string& text) {
  return pool.step(episode, step_of(episode, text));
}

std::string said(const WorkerAnswer& answer) {
  if (answer.outcome != EpisodeOutcome::kOk) return answer.message;
  return messages_of(answer.body).at(0).content;
}

TEST(Worker, AnEpisodeGoesTurnByTurn) {
  const auto env =
      must_make("worker", {{"command", fixture_command()}, {"settings", "{\"num_tasks\": 7}"}});
  EXPECT_EQ(env->name(), "fixture");
  EXPECT_EQ(env->num_tasks(), 7);
  EXPECT_TRUE(env->health().ok());
  const auto episode = env->make_episode(18446744073709551615u, 3);
  const Observation first = episode->start();
  ASSERT_EQ(first.messages.size(), 1u);
  EXPECT_EQ(first.messages[0].role, "user");
  EXPECT_EQ(first.messages[0].content, "18446744073709551615/3");
  const Feedback turn = episode->step({.text = "one \"quoted\"\n"});
  EXPECT_FALSE(turn.is_done);
  EXPECT_EQ(turn.outcome, EpisodeOutcome::kOk);
  EXPECT_EQ(turn.next.messages[0].role, "tool");
  EXPECT_EQ(turn.next.messages[0].content, "so far: one \"quoted\"\n");
  const Feedback end = episode->step({.text = "done", .is_complete = false});
  EXPECT_TRUE(end.is_done);
  EXPECT_EQ(end.rewards, (std::map<std::string, double>{{"length", 2.0}, {"complete", 0.0}}));
}

TEST(Worker, WhatIsWrongIsToldBeforeWorkStarts) {
  const auto message = [](const EnvSettings& settings) {
    const auto made = make_environment("worker", settings);
    return made.ok() ? "made" : made.status().message();
  };
  EXPECT_THAT(message({}), HasSubstr("\"command\": must be given"));
  EXPECT_THAT(message({{"command", "no-such-program-here"}}),
              HasSubstr("cannot run \"no-such-program-here\": No such file"));
  EXPECT_THAT(message({{"command", "[1]"}}), HasSubstr("expected a JSON list of strings"));
  EXPECT_THAT(message({{"command", "x"}, {"settings", "[]"}}), HasSubstr("got an array"));
  EXPECT_THAT(message({{"command", "true"}}),
              AllOf(HasSubstr("crash"), HasSubstr("exit status 0 instead of answering \"hello\"")));
  const std::string command = "[\"" + python() + "\", \"-I\", \"-S\", \"" + fixture() + "\"]";
  EXPECT_THAT(message({{"command", command}, {"settings", "{\"on_hello\": \"raise\"}"}}),
              AllOf(HasSubstr("exception"), HasSubstr("ValueError: as asked")));
  EXPECT_THAT(message({{"command", command}, {"settings", "{\"protocol\": 2}"}}),
              AllOf(HasSubstr("garbage"), HasSubstr("with protocol 1")));
  EXPECT_THAT(message({{"command", command}, {"settings", "{\"num_tasks\": -1}"}}),
              HasSubstr("\"num_tasks\" is no count"));
}

TEST(Worker, ALauncherThatMayStartNothingIsToldWhatToDo) {
  const auto made =
      make_environment("worker", {{"command", "[\"sh\", \"-c\", \"sleep 0; sleep 0\"]"}});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(), HasSubstr("set fork = true"));
}

struct Fault {
  const char* action;
  EpisodeOutcome outcome;
  const char* message;
};

class WorkerFault : public testing::TestWithParam<Fault> {};

TEST_P(WorkerFault, IsAnOutcomeAndTheNextEpisodeIsWell) {
  WorkerPool pool(fixture_options());
  ASSERT_TRUE(pool.open().ok());
  HostedEpisode episode = pool.make_episode(1, 2);
  ASSERT_EQ(pool.start(episode).outcome, EpisodeOutcome::kOk);
  if (std::string(GetParam().action) == "hang") episode.seconds_left = 0.2;
  const auto began = std::chrono::steady_clock::now();
  const WorkerAnswer answer = act(pool, episode, GetParam().action);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_EQ(outcome_name(answer.outcome), outcome_name(GetParam().outcome)) << answer.message;
  EXPECT_THAT(answer.message, HasSubstr(GetParam().message));
  EXPECT_LT(took.count(), 20.0);
  pool.close(episode, false);

  HostedEpisode next = pool.make_episode(1, 3);
  EXPECT_EQ(said(pool.start(next)), "1/3");
  EXPECT_EQ(act(pool, next, "done").outcome, EpisodeOutcome::kOk);
  EXPECT_EQ(pool.close(next, true).outcome, EpisodeOutcome::kOk);
  EXPECT_TRUE(pool.health().ok());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, WorkerFault,
    testing::Values(
        Fault{"hang", EpisodeOutcome::kTimeout, "no answer to \"step\" within the 0.2 s left"},
        Fault{"exit", EpisodeOutcome::kCrash, "exit status 3"},
        Fault{"exit", EpisodeOutcome::kCrash, "its stderr ends: went away"},
        Fault{"abort", EpisodeOutcome::kCrash, "ended with signal"},
        Fault{"raise", EpisodeOutcome::kException, "ValueError: as asked"},
        Fault{"garbage", EpisodeOutcome::kGarbage, "not JSON as answer to \"step\": hello there"},
        Fault{"list", EpisodeOutcome::kGarbage, "not an object"},
        Fault{"nan", EpisodeOutcome::kGarbage, "not JSON"},
        Fault{"text", EpisodeOutcome::kGarbage, "the reward \"x\" is no finite number"},
        Fault{"other", EpisodeOutcome::kGarbage, "of another episode"},
        Fault{"mute", EpisodeOutcome::kGarbage, "\"messages\" is missing"},
        Fault{"memory", EpisodeOutcome::kMemory, "limited to 256 MiB"},
        Fault{"said_memory", EpisodeOutcome::kMemory, "no memory"},
        Fault{"deaf", EpisodeOutcome::kCrash, "closed its stdout"}),
    [](const testing::TestParamInfo<Fault>& info) {
      return std::string(info.param.action) + std::to_string(info.index);
    });

TEST(Worker, FailuresBecomeFeedbackWithoutReward) {
  const auto env = must_make(
      "worker", {{"command", fixture_command()}, {"settings", "{\"on_start\": \"raise\"}"}});
  const auto episode = env->make_episode(1, 0);
  EXPECT_EQ(episode->start().messages.size(), 1u);
  const Feedback feedback = episode->step({.text = "done"});
  EXPECT_TRUE(feedback.is_done);
  EXPECT_EQ(feedback.outcome, EpisodeOutcome::kException);
  EXPECT_TRUE(feedback.rewards.empty());
  EXPECT_THAT(feedback.message, HasSubstr("as asked"));
}

TEST(Worker, TeardownIsUnderTheSameDeadline) {
  const auto env = must_make("worker", {{"command", fixture_command()},
                                        {"settings", "{\"on_close\": \"hang\"}"},
                                        {"deadline_s", "1"}});
  const auto episode = env->make_episode(1, 0);
  episode->start();
  const Feedback feedback = episode->step({.text = "done"});
  EXPECT_TRUE(feedback.is_done);
  EXPECT_EQ(feedback.outcome, EpisodeOutcome::kTimeout);
  EXPECT_TRUE(feedback.rewards.empty());
}

TEST(Worker, EpisodesOfALostProcessArePlayedAgain) {
  WorkerPool pool(fixture_options());
  ASSERT_TRUE(pool.open().ok());
  HostedEpisode innocent = pool.make_episode(1, 0);
  HostedEpisode other = pool.make_episode(1, 1);
  HostedEpisode culprit = pool.make_episode(1, 2);
  for (HostedEpisode* each : {&innocent, &other, &culprit}) {
    ASSERT_EQ(pool.start(*each).outcome, EpisodeOutcome::kOk);
  }
  EXPECT_EQ(said(act(pool, innocent, "a")), "so far: a");
  EXPECT_EQ(act(pool, culprit, "exit").outcome, EpisodeOutcome::kCrash);
  EXPECT_EQ(said(act(pool, innocent, "b")), "so far: a,b");
  EXPECT_EQ(said(act(pool, other, "c")), "so far: c");
  for (HostedEpisode* each : {&innocent, &other, &culprit}) pool.close(*each, false);
}

TEST(Worker, EpisodesSpreadOverTheWorkers) {
  WorkerPoolOptions options = fixture_options();
  options.workers = 2;
  WorkerPool pool(options);
  ASSERT_TRUE(pool.open().ok());
  std::vector<HostedEpisode> episodes;
  for (uint64_t i = 0; i < 4; ++i) {
    episodes.push_back(pool.make_episode(1, i));
    ASSERT_EQ(pool.start(episodes.back()).outcome, EpisodeOutcome::kOk);
  }
  EXPECT_NE(said(act(pool, episodes[0], "pid")), said(act(pool, episodes[1], "pid")));
  EXPECT_EQ(said(act(pool, episodes[0], "pid")), said(act(pool, episodes[2], "pid")));
  // A hang of one worker's episode holds up none of the other's.
  episodes[0].seconds_left = 0.5;
  WorkerAnswer hung;
  std::thread waits([&] { hung = act(pool, episodes[0], "hang"); });
  EXPECT_EQ(said(act(pool, episodes[1], "a")), "so far: pid,a");
  waits.join();
  EXPECT_EQ(hung.outcome, EpisodeOutcome::kTimeout);
  for (HostedEpisode& each : episodes) pool.close(each, false);
}

TEST(Worker, RestartsBackOffAndRepeatedFailureIsQuarantine) {
  WorkerPoolOptions options = fixture_options();
  options.max_failures = 3;
  options.first_backoff_seconds = 0.05;
  WorkerPool pool(options);
  ASSERT_TRUE(pool.open().ok());
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    HostedEpisode episode = pool.make_episode(1, 0);
    ASSERT_EQ(pool.start(episode).outcome, EpisodeOutcome::kOk);
    EXPECT_TRUE(pool.health().ok());
    EXPECT_EQ(act(pool, episode, "exit").outcome, EpisodeOutcome::kCrash);
    pool.close(episode, false);
  }
  // Two restarts, after 0.05 s and 0.1 s.
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(150));
  HostedEpisode episode = pool.make_episode(1, 0);
  const WorkerAnswer answer = pool.start(episode);
  EXPECT_EQ(answer.outcome, EpisodeOutcome::kCrash);
  EXPECT_THAT(answer.message, AllOf(HasSubstr("worker 0 is given up after 3 failures in a row"),
                                    HasSubstr("exit status 3"), HasSubstr("went away")));
  EXPECT_EQ(pool.health().code(), StatusCode::kUnavailable);
  EXPECT_THAT(pool.health().message(), HasSubstr("went away"));
}

TEST(Worker, AFinishedEpisodeClearsTheCountOfFailures) {
  WorkerPoolOptions options = fixture_options();
  options.max_failures = 2;
  WorkerPool pool(options);
  ASSERT_TRUE(pool.open().ok());
  for (int i = 0; i < 3; ++i) {
    for (const std::string text : {"exit", "done"}) {
      HostedEpisode episode = pool.make_episode(1, 0);
      ASSERT_EQ(pool.start(episode).outcome, EpisodeOutcome::kOk);
      const WorkerAnswer answer = act(pool, episode, text);
      pool.close(episode, answer.outcome == EpisodeOutcome::kOk);
    }
  }
  EXPECT_TRUE(pool.health().ok());
}

TEST(Worker, AGivenUpWorkersEpisodesMoveToAnother) {
  WorkerPoolOptions options = fixture_options();
  options.workers = 2;
  options.max_failures = 1;
  WorkerPool pool(options);
  ASSERT_TRUE(pool.open().ok());
  HostedEpisode moved = pool.make_episode(1, 0);
  ASSERT_EQ(pool.start(moved).outcome, EpisodeOutcome::kOk);
  HostedEpisode second = pool.make_episode(1, 1);
  ASSERT_EQ(pool.start(second).outcome, EpisodeOutcome::kOk);
  HostedEpisode culprit = pool.make_episode(1, 2);
  ASSERT_EQ(culprit.slot, moved.slot);
  EXPECT_EQ(said(act(pool, moved, "a")), "so far: a");
  ASSERT_EQ(pool.start(culprit).outcome, EpisodeOutcome::kOk);
  EXPECT_EQ(act(pool, culprit, "exit").outcome, EpisodeOutcome::kCrash);
  EXPECT_EQ(said(act(pool, moved, "b")), "so far: a,b");
  EXPECT_EQ(moved.slot, second.slot);
  EXPECT_TRUE(pool.health().ok());
  for (HostedEpisode* each : {&moved, &second, &culprit}) pool.close(*each, false);
}

TEST(Worker, MayBeKeptFromStartingProcesses) {
  for (const bool may_fork : {false, true}) {
    WorkerPoolOptions options = fixture_options();
    options.worker.may_fork = may_fork;
    WorkerPool pool(options);
    ASSERT_TRUE(pool.open().ok());
    HostedEpisode episode = pool.make_episode(1, 0);
    ASSERT_EQ(pool.start(episode).outcome, EpisodeOutcome::kOk);
    EXPECT_EQ(said(act(pool, episode, "fork")), may_fork ? "forked" : "refused");
    pool.close(episode, false);
  }
}

}  // namespace
}  // namespace mainspring

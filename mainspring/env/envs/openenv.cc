// openenv: environments behind an OpenEnv server, over WebSocket.
//
// The one idea: a connection is a session of the server and hosts one episode at a time, so each
// open episode holds one, and idle ones are used again. The server must admit as many sessions as
// episodes are open at once. Its errors, silence, absence and nonsense are outcomes of an episode.
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/io/json.h"
#include "mainspring/net/websocket_client.h"

namespace mainspring {
namespace {

struct OpenEnvOptions {
  std::string url;
  std::string action_field;
  std::string observation_field;  // "": the observation as JSON
  std::string system;
  double deadline_seconds;
  int64_t max_turns;
};

struct OpenEnvAnswer {
  EpisodeOutcome outcome = EpisodeOutcome::kOk;
  std::string message;
  std::string text;  // of the observation
  double reward = 0;
  bool is_done = false;
};

OpenEnvAnswer failed(EpisodeOutcome outcome, std::string message) {
  return {.outcome = outcome, .message = std::move(message)};
}

OpenEnvAnswer failed(const Status& status) {
  const bool is_late = status.code() == StatusCode::kDeadlineExceeded;
  return failed(is_late ? EpisodeOutcome::kTimeout : EpisodeOutcome::kCrash, status.message());
}

/// A reward is a number, true or false, or null.
std::optional<double> read_reward(const Json& data) {
  const auto reward = data.find("reward");
  if (reward == data.end() || reward->is_null()) return 0.0;
  if (reward->is_boolean()) return reward->get<bool>() ? 1.0 : 0.0;
  if (!reward->is_number() || !std::isfinite(reward->get<double>())) return std::nullopt;
  return reward->get<double>();
}

OpenEnvAnswer read_error(const Json& data) {
  const Json said = data.value("message", Json(""));
  std::string text = said.is_string() ? said.get<std::string>() : json_text(said);
  const auto code = data.find("code");
  const std::string name = code != data.end() && code->is_string() ? code->get<std::string>() : "";
  const auto details = data.find("errors");
  if (details != data.end()) text += " " + json_text(*details).substr(0, 500);
  return failed(EpisodeOutcome::kException, name + ": " + text);
}

OpenEnvAnswer read_answer(const std::string& line, const OpenEnvOptions& options) {
  const auto garbage = [&](const std::string& problem) {
    return failed(EpisodeOutcome::kGarbage,
                  options.url + ": " + problem + ": " + line.substr(0, 200));
  };
  const Result<Json> message = parse_json(line, "answer");
  if (!message.ok() || !message->is_object()) return garbage("not a JSON object");
  const Json type = message->value("type", Json());
  const auto data = message->find("data");
  if (data == message->end() || !data->is_object()) return garbage("no \"data\"");
  if (type == "error") return read_error(*data);
  if (type != "observation") return garbage("expected an observation");
  const auto observation = data->find("observation");
  const auto done = data->find("done");
  if (observation == data->end() || !observation->is_object()) return garbage("no \"observation\"");
  if (done == data->end() || !done->is_boolean()) return garbage("no \"done\"");
  const std::optional<double> reward = read_reward(*data);
  if (!reward.has_value()) return garbage("the reward is no finite number");
  OpenEnvAnswer answer;
  answer.reward = *reward;
  answer.is_done = done->get<bool>();
  if (options.observation_field.empty()) {
    answer.text = json_text(*observation);
    return answer;
  }
  const auto field = observation->find(options.observation_field);
  if (field == observation->end()) {
    return garbage("the observation has no \"" + options.observation_field + "\"");
  }
  answer.text = field->is_string() ? field->get<std::string>() : json_text(*field);
  return answer;
}

/// Connections that no episode holds. Threads: any.
class OpenEnvSessions {
 public:
  explicit OpenEnvSessions(OpenEnvOptions options) : options_(std::move(options)) {}
  const OpenEnvOptions& options() const { return options_; }

  std::unique_ptr<WebSocketClient> take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    auto client = std::move(idle_.back());
    idle_.pop_back();
    return client;
  }
  void give_back(std::unique_ptr<WebSocketClient> client) {
    if (client == nullptr || !client->is_open()) return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(client));
  }

 private:
  OpenEnvOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<WebSocketClient>> idle_;
};

class OpenEnvEpisode final : public Episode {
 public:
  OpenEnvEpisode(std::shared_ptr<OpenEnvSessions> sessions, int64_t seed, std::string id)
      : sessions_(std::move(sessions)),
        seconds_left_(sessions_->options().deadline_seconds),
        reset_({{"type", "reset"}, {"data", {{"seed", seed}, {"episode_id", std::move(id)}}}}) {}
  ~OpenEnvEpisode() override { sessions_->give_back(std::move(client_)); }

  Observation start() override {
    Observation first;
    const std::string& system = sessions_->options().system;
    if (!system.empty()) first.messages.push_back({"system", system});
    first_ = open();
    // Of a failure nothing is known to say; it is told with the first step.
    first.messages.push_back({"user", first_.text});
    return first;
  }

  Feedback step(const Action& action) override {
    ++turn_;
    OpenEnvAnswer answer = first_;
    const OpenEnvOptions& options = sessions_->options();
    Feedback feedback;
    if (answer.outcome == EpisodeOutcome::kOk) {
      if (!action.is_complete) {
        feedback.rewards["reward"] = 0.0;  // a cut reply is no action
        return feedback;
      }
      answer = ask({{"type", "step"}, {"data", {{options.action_field, action.text}}}});
    }
    feedback.outcome = answer.outcome;
    feedback.message = answer.message;
    if (answer.outcome != EpisodeOutcome::kOk) return feedback;
    feedback.rewards["reward"] = answer.reward;
    feedback.is_done = answer.is_done || turn_ >= options.max_turns;
    if (!feedback.is_done) feedback.next.messages.push_back({"user", answer.text});
    return feedback;
  }

 private:
  OpenEnvAnswer open() {
    client_ = sessions_->take_idle();
    if (client_ != nullptr) {
      OpenEnvAnswer answer = ask(reset_);
      // An idle connection may have been closed by the server meanwhile; a new one tells.
      if (answer.outcome != EpisodeOutcome::kCrash) return answer;
    }
    auto connected =
        timed([&] { return WebSocketClient::connect(sessions_->options().url, seconds_left_); });
    if (!connected.ok()) return failed(connected.status());
    client_ = std::move(connected).value();
    return ask(reset_);
  }

  template <typename Call>
  auto timed(Call call) -> decltype(call()) {
    const auto began = std::chrono::steady_clock::now();
    auto result = call();
    seconds_left_ -=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return result;
  }

  OpenEnvAnswer ask(const Json& request) {
    const Status sent = timed([&] { return client_->send(json_text(request), seconds_left_); });
    // A server that is full says so before it closes: what it said is still there to be read.
    const Result<std::string> line = timed([&] { return client_->receive(seconds_left_); });
    if (!line.ok()) return failed(sent.ok() ? line.status() : sent);
    OpenEnvAnswer answer = read_answer(*line, sessions_->options());
    // After nonsense nobody knows what the next message answers.
    if (answer.outcome != EpisodeOutcome::kOk) client_->close(0.1);
    return answer;
  }

  std::shared_ptr<OpenEnvSessions> sessions_;
  double seconds_left_;
  Json reset_;
  std::unique_ptr<WebSocketClient> client_;
  OpenEnvAnswer first_;
  int64_t turn_ = 0;
};

class OpenEnvEnvironment final : public Environment {
 public:
  explicit OpenEnvEnvironment(OpenEnvOptions options)
      : sessions_(std::make_shared<OpenEnvSessions>(std::move(options))) {}

  std::string name() const override { return "openenv"; }
  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    const int64_t task = EnvRandom("openenv", seed, index).below(int64_t{1} << 31);
    return std::make_unique<OpenEnvEpisode>(sessions_, task,
                                            std::to_string(seed) + "-" + std::to_string(index));
  }
  Status check(double seconds) {
    MS_ASSIGN_OR_RETURN(auto client, WebSocketClient::connect(sessions_->options().url, seconds));
    sessions_->give_back(std::move(client));
    return {};
  }

 private:
  std::shared_ptr<OpenEnvSessions> sessions_;
};

}  // namespace

EnvironmentResult make_openenv_env(const EnvSettings& settings) {
  EnvSettingsReader reader("openenv", settings);
  OpenEnvOptions options;
  options.url = reader.required_text("url", "such as \"ws://127.0.0.1:8000/ws\"");
  options.action_field = reader.text("action_field", "text");
  options.observation_field = reader.text("observation_field", "");
  options.system = reader.text("system", "");
  options.deadline_seconds = reader.number("deadline_s", 30, 0.01, 86400);
  options.max_turns = reader.integer("max_turns", 100, 1, 100000);
  if (!options.url.empty()) {
    const auto address = parse_websocket_url(options.url);
    if (!address.ok()) reader.refuse("url", address.status().message());
  }
  MS_RETURN_IF_ERROR(reader.finish());
  auto environment = std::make_unique<OpenEnvEnvironment>(options);
  MS_RETURN_IF_ERROR(
      environment->check(options.deadline_seconds).with_context("environment \"openenv\""));
  return std::unique_ptr<Environment>(std::move(environment));
}

}  // namespace mainspring

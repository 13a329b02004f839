#include "mainspring/env/worker/worker_messages.h"

#include <cmath>

namespace mainspring {
namespace {

bool has_string(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string();
}

std::string messages_problem(const Json& message, bool may_be_empty) {
  const auto messages = message.find("messages");
  if (messages == message.end()) return may_be_empty ? "" : "\"messages\" is missing";
  if (!messages->is_array()) return "\"messages\" is no list";
  if (messages->empty() && !may_be_empty) return "\"messages\" is empty";
  for (const Json& each : *messages) {
    if (!each.is_object() || !has_string(each, "role") || !has_string(each, "content")) {
      return "a message without \"role\" and \"content\"";
    }
  }
  return "";
}

std::string ready_problem(const Json& message) {
  const auto name = message.find("name");
  if (name != message.end() && !name->is_string()) return "\"name\" is no string";
  const auto num_tasks = message.find("num_tasks");
  const bool is_count = num_tasks == message.end() ||
                        (num_tasks->is_number_unsigned() && *num_tasks <= int64_t{1} << 53);
  return is_count ? "" : "\"num_tasks\" is no count";
}

std::string feedback_problem(const Json& message) {
  const auto done = message.find("done");
  if (done == message.end() || !done->is_boolean()) return "\"done\" is neither true nor false";
  const auto rewards = message.find("rewards");
  if (rewards == message.end() || !rewards->is_object()) return "\"rewards\" is no object";
  for (const auto& [part, reward] : rewards->items()) {
    if (!reward.is_number() || !std::isfinite(reward.get<double>())) {
      return "the reward \"" + part + "\" is no finite number";
    }
  }
  return messages_problem(message, done->get<bool>());
}

}  // namespace

std::string message_problem(const Json& message, std::string_view type) {
  if (type == "ready") return ready_problem(message);
  if (type == "observation") return messages_problem(message, false);
  if (type == "feedback") return feedback_problem(message);
  return "";
}

std::vector<EnvMessage> messages_of(const Json& message) {
  std::vector<EnvMessage> list;
  const auto messages = message.find("messages");
  if (messages == message.end()) return list;
  for (const Json& each : *messages) {
    list.push_back({each["role"].get<std::string>(), each["content"].get<std::string>()});
  }
  return list;
}

std::map<std::string, double> rewards_of(const Json& message) {
  std::map<std::string, double> rewards;
  for (const auto& [part, reward] : message["rewards"].items()) {
    rewards[part] = reward.get<double>();
  }
  return rewards;
}

}  // namespace mainspring

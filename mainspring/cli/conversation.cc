#include "mainspring/cli/conversation.h"

#include <utility>

namespace mainspring::cli {
namespace {

Json message_of(const char* role, std::string text) {
  Json message = Json::object();
  message["role"] = role;
  message["content"] = std::move(text);
  return message;
}

}  // namespace

Conversation::Conversation(const ModelText& text, std::string system)
    : text_(text), system_(std::move(system)) {
  reset();
}

void Conversation::reset() {
  messages_ = Json::array();
  if (!system_.empty()) messages_.push_back(message_of("system", system_));
}

void Conversation::add_user(std::string text) {
  messages_.push_back(message_of("user", std::move(text)));
}

void Conversation::add_assistant(std::string text) {
  messages_.push_back(message_of("assistant", std::move(text)));
}

void Conversation::drop_last() { messages_.erase(messages_.size() - 1); }

size_t Conversation::first_turn() const { return system_.empty() ? 0 : 1; }

Result<Conversation::Prompt> Conversation::prompt(int64_t max_tokens) {
  Prompt prompt;
  ChatOptions options;
  options.add_generation_prompt = true;
  while (true) {
    MS_ASSIGN_OR_RETURN(const std::string text, text_.chat_template->render(messages_, options));
    MS_ASSIGN_OR_RETURN(prompt.tokens, text_.tokenizer->encode(text));
    if (static_cast<int64_t>(prompt.tokens.size()) <= max_tokens) return prompt;
    if (messages_.size() < first_turn() + 3) {
      return resource_exhausted("the message takes " + std::to_string(prompt.tokens.size()) +
                                " tokens, there is room for " + std::to_string(max_tokens));
    }
    messages_.erase(first_turn());
    messages_.erase(first_turn());
    ++prompt.forgotten_turns;
  }
}

std::string Conversation::to_row() const {
  Json row = Json::object();
  row["messages"] = messages_;
  return json_text(row);
}

}  // namespace mainspring::cli

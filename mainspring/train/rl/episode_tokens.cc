#include "mainspring/train/rl/episode_tokens.h"

#include "mainspring/io/json.h"

namespace mainspring {

Result<std::string> EpisodeTokens::render(bool add_generation_prompt) const {
  if (text_.tokenizer == nullptr || text_.chat_template == nullptr) {
    return failed_precondition(
        std::string("the environment speaks in chat messages, and the model has no ") +
        (text_.tokenizer == nullptr ? "tokenizer" : "chat template"));
  }
  Json list = Json::array();
  for (const EnvMessage& message : messages_) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  // A date in the prompt would make a run depend on the day.
  return text_.chat_template->render(
      list, {.add_generation_prompt = add_generation_prompt, .now_unix_s = 0});
}

Result<std::vector<int32_t>> EpisodeTokens::encode(std::string_view text) const {
  return text_.tokenizer->encode(text, {.add_special_tokens = false, .parse_special_tokens = true});
}

void EpisodeTokens::append(const std::vector<int32_t>& tokens) {
  Branch& branch = branches_.back();
  branch.tokens.insert(branch.tokens.end(), tokens.begin(), tokens.end());
  branch.sampled.resize(branch.tokens.size(), 0);
  branch.logprobs.resize(branch.tokens.size(), 0.0f);
  branch.versions.resize(branch.tokens.size(), -1);
}

Status EpisodeTokens::observe(const Observation& observation) {
  if (branches_.empty()) branches_.emplace_back();
  if (observation.messages.empty()) {
    append(observation.tokens);
    return {};
  }
  return observe_messages(observation.messages);
}

Status EpisodeTokens::observe_messages(const std::vector<EnvMessage>& messages) {
  const bool is_first = messages_.empty();
  if (!is_first) messages_.push_back({"assistant", reply_text_});
  messages_.insert(messages_.end(), messages.begin(), messages.end());
  MS_ASSIGN_OR_RETURN(std::string text, render(true));
  const std::string before = seen_ + reply_text_;
  seen_ = text;
  if (!is_first && text.starts_with(before)) {
    std::string_view rest = std::string_view(text).substr(before.size());
    if (!end_text_.empty() && rest.starts_with(end_text_)) rest.remove_prefix(end_text_.size());
    MS_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, encode(rest));
    append(tokens);
    return {};
  }
  if (!is_first) branches_.emplace_back();
  MS_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, encode(text));
  append(tokens);
  return {};
}

Result<Action> EpisodeTokens::reply(const SampleResult& result) {
  Branch& branch = branches_.back();
  for (size_t i = 0; i < result.tokens.size(); ++i) {
    branch.tokens.push_back(result.tokens[i]);
    branch.sampled.push_back(1);
    branch.logprobs.push_back(result.raw_logprobs[i]);
    branch.versions.push_back(static_cast<int64_t>(result.weight_version));
  }
  Action action{.text = {},
                .tokens = result.tokens,
                .is_complete = result.stop_reason == StopReason::kStopToken};
  if (text_.tokenizer == nullptr || result.tokens.empty()) return action;
  MS_ASSIGN_OR_RETURN(action.text, text_.tokenizer->decode(result.tokens, true));
  reply_text_ = action.text;
  end_text_.clear();
  if (text_.tokenizer->is_special(result.tokens.back())) {
    MS_ASSIGN_OR_RETURN(end_text_, text_.tokenizer->token_text(result.tokens.back()));
  }
  return action;
}

}  // namespace mainspring

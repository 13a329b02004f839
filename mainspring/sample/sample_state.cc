#include "mainspring/sample/sample_state.h"

#include <algorithm>

namespace mainspring {

int64_t pages_of(int64_t positions) { return (positions + kPageTokens - 1) / kPageTokens; }

SampleState::SampleState(std::shared_ptr<RequestState> owner, int32_t sample,
                         std::unique_ptr<TextStream> text)
    : request(std::move(owner)),
      index(sample),
      stop_text(request->request.params.stop),
      stream(std::move(text)) {
  result.seed = request->seed;
  if (law().penalties.any()) history.add_prompt(request->request.prompt);
  if (request->constraint != nullptr) constraint_state = request->constraint->start();
}

int32_t SampleState::token(int64_t position) const {
  const std::vector<int32_t>& prompt = request->request.prompt;
  const auto i = static_cast<size_t>(position);
  if (i < prompt.size()) return prompt[i];
  const size_t in_reply = i - prompt.size();
  const size_t reply_size = result.tokens.size();
  return in_reply < reply_size ? result.tokens[in_reply] : draft[in_reply - reply_size];
}

std::array<int32_t, kPageTokens> SampleState::page_tokens(int64_t page) const {
  std::array<int32_t, kPageTokens> tokens;
  for (int32_t i = 0; i < kPageTokens; ++i) {
    tokens[static_cast<size_t>(i)] = token(page * kPageTokens + i);
  }
  return tokens;
}

Law SampleState::law() const {
  return {.temperature = params().temperature,
          .top_k = params().top_k,
          .top_p = params().top_p,
          .min_p = params().min_p,
          .penalties = {.repetition = params().repetition_penalty,
                        .presence = params().presence_penalty,
                        .frequency = params().frequency_penalty}};
}

AllowedTokens SampleState::allowed_tokens() const {
  if (request->constraint == nullptr) return {};
  AllowedTokens allowed{request->constraint->allowed(constraint_state), {}};
  if (request->constraint->may_end(constraint_state)) allowed.also = params().stop_tokens;
  return allowed;
}

const TokenHistory* SampleState::penalised_history() const {
  return law().penalties.any() ? &history : nullptr;
}

float SampleState::uniform(int64_t token_index) const {
  return token_uniform(request->seed, static_cast<uint32_t>(index),
                       static_cast<uint32_t>(token_index));
}

std::optional<StopReason> SampleState::append(const Chosen& chosen, int64_t max_sequence_tokens,
                                              std::string& text) {
  const Choice& choice = chosen.choice;
  if (choice.token < 0) return StopReason::kNonFinite;
  result.tokens.push_back(choice.token);
  if (law().penalties.any()) history.add_reply(choice.token);
  result.logprobs.push_back(choice.logprob);
  result.raw_logprobs.push_back(choice.raw_logprob);
  result.kept.push_back(choice.kept);
  if (params().top_logprobs > 0) result.top_logprobs.push_back(chosen.top);
  const std::vector<int32_t>& stops = params().stop_tokens;
  if (std::find(stops.begin(), stops.end(), choice.token) != stops.end())
    return StopReason::kStopToken;
  if (stream != nullptr) {
    text += stop_text.push(stream->push(choice.token));
    if (stop_text.is_stopped()) return StopReason::kStopString;
  }
  if (request->constraint != nullptr) {
    constraint_state = request->constraint->after(constraint_state, choice.token);
    if (request->constraint->must_end(constraint_state)) {
      return request->constraint->may_end(constraint_state) ? StopReason::kSchema
                                                            : StopReason::kDeadEnd;
    }
  }
  if (static_cast<int64_t>(result.tokens.size()) >= params().max_tokens)
    return StopReason::kMaxTokens;
  if (num_tokens() >= max_sequence_tokens) return StopReason::kContext;
  return std::nullopt;
}

std::string SampleState::finish_text() {
  std::string rest;
  if (stream != nullptr) rest = stop_text.push(stream->finish());
  rest += stop_text.finish();
  result.text = stop_text.text();
  return rest;
}

}  // namespace mainspring

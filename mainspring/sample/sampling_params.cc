#include "mainspring/sample/sampling_params.h"

#include <charconv>
#include <string_view>
#include <utility>

namespace mainspring {
namespace {

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<float>(value)).ptr;
  return {text, end};
}

Status refuse(std::string_view field, std::string_view expected, const std::string& got) {
  return invalid_argument(std::string(field) + ": expected " + std::string(expected) + ", got " +
                          got);
}

}  // namespace

Status validate(const SamplingParams& params, int64_t vocabulary) {
  if (params.max_tokens < 0) {
    return refuse("max_tokens", "an integer of at least 0", std::to_string(params.max_tokens));
  }
  // Written so that NaN is refused.
  const bool temperate = params.temperature >= 1e-4f && params.temperature <= 1e3f;
  if (params.temperature != 0.0f && !temperate) {
    return refuse("temperature", "0 (greedy) or a number from 0.0001 to 1000",
                  number(params.temperature));
  }
  if (params.top_k < 0) {
    return refuse("top_k", "an integer of at least 0 (0: off)", std::to_string(params.top_k));
  }
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    return refuse("top_p", "a number above 0 and at most 1", number(params.top_p));
  }
  if (!(params.min_p >= 0.0f && params.min_p <= 1.0f)) {
    return refuse("min_p", "a number from 0 to 1", number(params.min_p));
  }
  if (!(params.repetition_penalty >= 1e-2f && params.repetition_penalty <= 1e2f)) {
    return refuse("repetition_penalty", "a number from 0.01 to 100 (1: off)",
                  number(params.repetition_penalty));
  }
  const std::pair<std::string_view, float> penalties[] = {
      {"presence_penalty", params.presence_penalty},
      {"frequency_penalty", params.frequency_penalty}};
  for (const auto& [name, penalty] : penalties) {
    if (!(penalty >= -2.0f && penalty <= 2.0f))
      return refuse(name, "a number from -2 to 2 (0: off)", number(penalty));
  }
  if (params.n < 1 || params.n > kMaxSamples) {
    return refuse("n", "an integer from 1 to " + std::to_string(kMaxSamples),
                  std::to_string(params.n));
  }
  if (params.top_logprobs < 0 || params.top_logprobs > kMaxTopLogprobs) {
    return refuse("top_logprobs", "an integer from 0 to " + std::to_string(kMaxTopLogprobs),
                  std::to_string(params.top_logprobs));
  }
  for (const std::string& text : params.stop) {
    if (text.empty()) return refuse("stop", "texts that are not empty", "\"\"");
  }
  for (const int32_t token : params.stop_tokens) {
    if (token < 0 || token >= vocabulary) {
      return refuse("stop_tokens", "tokens from 0 to " + std::to_string(vocabulary - 1),
                    std::to_string(token));
    }
  }
  return {};
}

}  // namespace mainspring

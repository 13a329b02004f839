// SamplingParams: what one request asks of the sampler, and why values are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

/// Defaults sample from the model's own law.
struct SamplingParams {
  int32_t max_tokens = 256;  // 0: only prompt log-probabilities
  float temperature = 1.0f;  // 0: greedy, the largest logit, lowest id on ties
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  // Of tokens that the sequence has already (penalties.h).
  float repetition_penalty = 1.0f;  // 1: off; above 1: fewer repetitions of prompt and reply
  float presence_penalty = 0.0f;    // 0: off; -2 to 2
  float frequency_penalty = 0.0f;   // 0: off; -2 to 2
  /// With the sample number and the token index, the key of the random numbers (docs/exactness.md,
  /// rule 18). Missing: drawn from the sampler's run seed and the request's place.
  std::optional<uint64_t> seed;
  int32_t n = 1;                     // samples of one prompt
  std::vector<std::string> stop;     // the text ends before the first of them
  std::vector<int32_t> stop_tokens;  // the sample ends after one of them
  std::string json_schema;   // the reply is JSON of this schema (json_schema.h); empty: free
  int32_t top_logprobs = 0;  // alternatives to report per token, 0 to kMaxTopLogprobs
  bool prompt_logprobs = false;
};

inline constexpr int32_t kMaxTopLogprobs = 128;
inline constexpr int32_t kMaxSamples = 1 << 20;  // of one request

/// Errors: invalid argument "<field>: expected ..., got ...", such as "top_p: expected a number
/// above 0 and at most 1, got 1.5".
Status validate(const SamplingParams& params, int64_t vocabulary);

}  // namespace mainspring

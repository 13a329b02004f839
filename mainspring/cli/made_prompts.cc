#include "mainspring/cli/made_prompts.h"

namespace mainspring::cli {

SampleRequest made_request(int64_t sequence, int64_t prompt_tokens, int64_t new_tokens,
                           int64_t vocabulary) {
  SampleRequest request;
  for (int64_t t = 0; t < prompt_tokens; ++t) {
    request.prompt.push_back(
        static_cast<int32_t>((t * 7919 + sequence * 104729 + t * t * 31 + 11) % vocabulary));
  }
  request.params.max_tokens = static_cast<int32_t>(new_tokens);
  request.params.seed = static_cast<uint64_t>(sequence);
  return request;
}

}  // namespace mainspring::cli

// Prompts for timing: no text, but numbers that never repeat themselves.
#pragma once

#include <cstdint>

#include "mainspring/sample/sampler.h"

namespace mainspring::cli {

/// A request of `prompt_tokens` made tokens; those of two sequences have no common beginning, so
/// that nothing is shared. `sequence` is its seed.
SampleRequest made_request(int64_t sequence, int64_t prompt_tokens, int64_t new_tokens,
                           int64_t vocabulary);

}  // namespace mainspring::cli

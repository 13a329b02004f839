// Decoding steps on a timeline, for `mainspring profile --model M`.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/cli/model_session.h"
#include "mainspring/obs/timeline.h"

namespace mainspring::cli {

struct DecodeFlags {
  int64_t sequences = 8;  // that decode at once
  int64_t prompt_tokens = 256;
};

struct DecodedRun {
  int64_t num_tokens = 0;
  double cpu_s = 0;
  std::string digest;  // of the tokens: those of a run without a timeline
};

/// Computes the prompts and `warmup` steps, then puts `steps` steps of decoding on the timeline
/// (null: they run as always). Errors: invalid argument if the model's context is too short.
Result<DecodedRun> decode_on(ModelSession& session, const DecodeFlags& flags, int64_t steps,
                             int64_t warmup, Timeline* timeline);

}  // namespace mainspring::cli

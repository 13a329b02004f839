// `mainspring profile`: where the time of training steps goes, or of decoding steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"
#include "mainspring/cli/profile_decode.h"

namespace mainspring::cli {

struct ProfileFlags {
  std::string recipe;  // or
  ModelFlags model;    // a model to decode with; also threads and isa of both
  DecodeFlags decode;
  std::vector<std::string> sets;
  int64_t steps = 3;
  int64_t warmup = 1;
  std::string out;          // folder of profile.html, profile.json, trace.json; empty: none
  std::string by = "op";    // of the printed table: op, layer, path
  double nominal_peak = 0;  // TFLOP/s; 0: not given
  bool json = false;
};

/// Exit code 0; 1 with a message.
int run_profile(const ProfileFlags& flags);

void add_profile(CommandRegistry& registry);

}  // namespace mainspring::cli

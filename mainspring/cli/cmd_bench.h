// `mainspring bench sample`: how fast a model generates on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"
#include "mainspring/cli/speculation_flags.h"

namespace mainspring::cli {

struct BenchSampleFlags {
  ModelFlags model;
  std::string sequences = "1,16,64";  // run at once, one measurement each
  int64_t prompt_tokens = 256;
  int64_t new_tokens = 64;
  int64_t rounds = 3;  // the median counts
  SpeculationFlags speculation;
  bool json = false;
};

/// Exit code 0; 1 with a message.
int run_bench_sample(const BenchSampleFlags& flags);

void add_bench(CommandRegistry& registry);

}  // namespace mainspring::cli

// `mainspring sample`: completions of the prompts in a JSONL file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"
#include "mainspring/cli/speculation_flags.h"

namespace mainspring::cli {

struct SampleFlags {
  ModelFlags model;
  std::string in;   // "-": standard input
  std::string out;  // "-": standard output
  bool resume = false;
  bool stats = false;
  // Defaults of fields that a row does not have.
  int64_t max_tokens = 256;
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  int64_t n = 1;
  std::vector<std::string> stop;
  // Of the run. Nothing but `seed` changes a result.
  int64_t seed = 0;
  int64_t max_batch = 64;
  int64_t max_rows = 512;
  int64_t cache_mb = 1024;
  SpeculationFlags speculation;
};

/// Reads and checks every row, then samples; results are written in input order as they are ready.
/// Exit code: 0; 1 with a message on stderr; 130 when interrupted (what is finished is kept).
int run_sample(const SampleFlags& flags);

void add_sample(CommandRegistry& registry);

}  // namespace mainspring::cli

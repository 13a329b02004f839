// `mainspring logprobs`: log-probabilities of given tokens by the trainer's forward pass.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"

namespace mainspring::cli {

struct LogprobsFlags {
  ModelFlags model;
  std::string in;   // "-": standard input
  std::string out;  // "-": standard output
  bool resume = false;
  int64_t max_rows = 2048;
};

/// Reads and checks every row, then scores; results are written in input order. Exit code: 0; 1
/// with a message on stderr; 130 when interrupted.
int run_logprobs(const LogprobsFlags& flags);

void add_logprobs(CommandRegistry& registry);

}  // namespace mainspring::cli

// `mainspring eval`: losses, multiple choices and generations of a JSONL file of tasks.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"

namespace mainspring::cli {

struct EvalFlags {
  ModelFlags model;
  std::string tasks;  // "-": standard input
  std::string out;    // per-row outcomes; empty: none
  bool resume = false;
  bool json = false;
  bool add_special_tokens = false;
  int64_t max_rows = 2048;  // of one scoring pass
  int64_t max_batch = 64;   // generations at once
};

/// Exit code: 0; 1 with a message on stderr; 130 when interrupted (what is finished is kept).
int run_eval(const EvalFlags& flags);

void add_eval(CommandRegistry& registry);

}  // namespace mainspring::cli

// `mainspring train recipe.toml`: runs a recipe.
#pragma once

#include <string>
#include <vector>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct TrainFlags {
  std::string recipe;
  std::string run_dir;  // empty: runs/<title>
  std::vector<std::string> sets;
  int64_t threads = 0;
  std::string isa;
  bool dry_run = false;
  bool resume = false;
  bool keys = false;
  bool count = false;
};

/// Exit code 0 when the run ended; 128 + the signal's number (130, 143) when one stopped it, after
/// saving; 1 with a message.
int run_train(const TrainFlags& flags);

void add_train(CommandRegistry& registry);

}  // namespace mainspring::cli

// `mainspring sweep grid.toml`: trains the points of a grid and compares them.
#pragma once

#include <string>
#include <vector>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct SweepFlags {
  std::string grid;
  std::string sweep_dir;  // empty: runs/<title>
  std::vector<std::string> sets;
  std::vector<std::string> only;
  int64_t threads = 0;
  std::string isa;
  bool list = false;
  bool resume = false;
  bool json = false;
};

/// Exit code 0 when every chosen point has ended, also if some diverged; 128 + the signal's number
/// when one stopped the sweep, after saving; 1 with a message for a refused grid, for a point that
/// the world refused (disk, memory: --resume tries it again), and if no point finished.
int run_sweep_command(const SweepFlags& flags);

void add_sweep(CommandRegistry& registry);

}  // namespace mainspring::cli

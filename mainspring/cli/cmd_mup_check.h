// `mainspring mup-check`: whether training moves a recipe's model as far at every width.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct MupCheckFlags {
  std::string recipe;
  std::vector<std::string> sets;
  std::string widths;  // "64,128,256"; empty: half, once, twice and four times model.hidden
  int64_t steps = 4;
  std::string grow = "heads";  // heads | head_dim
  bool compare = false;        // the standard parametrisation besides
  std::string out;             // a .html file; empty: none
  int64_t threads = 0;
  bool json = false;
};

/// Exit code 0; 1 with a message, also if a recipe with muP has changes that grow with width.
int run_mup_check(const MupCheckFlags& flags);

void add_mup_check(CommandRegistry& registry);

}  // namespace mainspring::cli

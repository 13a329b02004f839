// `mainspring data build` and `data verify`: text to token shards, and whether they are whole.
#pragma once

#include <string>
#include <vector>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct DataBuildFlags {
  std::vector<std::string> inputs;
  std::string out;
  std::string tokenizer;  // as model.tokenizer of a recipe; "": bytes
  std::string field = "text";
  double held_out = 0.0;
  double near = 0.0;
  bool keep_duplicates = false;
  int64_t piece_mib = 32;
  int64_t threads = 0;
};

/// Exit code 0; 128 + the signal's number when one stopped the build (the same command goes on); 1
/// with a message.
int run_data_build(const DataBuildFlags& flags);

void add_data(CommandRegistry& registry);

}  // namespace mainspring::cli

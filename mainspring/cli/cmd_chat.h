// `mainspring chat`: a conversation with a model in the terminal.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"

namespace mainspring::cli {

struct ChatFlags {
  ModelFlags model;
  std::string system;
  int64_t max_tokens = 1024;
  // Below 0: what the model's makers suggest, else 0.7 and no cut.
  double temperature = -1.0;
  double top_p = -1.0;
  int64_t top_k = -1;
  double min_p = -1.0;
  int64_t seed = 0;
  bool stats = false;
};

/// Until /quit or the end of input. Ctrl-C ends a reply, not the program. Exit code 0; 1 with a
/// message.
int run_chat(const ChatFlags& flags);

void add_chat(CommandRegistry& registry);

}  // namespace mainspring::cli

// Conversation: the messages of a chat and the tokens a model is asked with.
//
// The one idea: every turn renders all messages through the model's own template; the sampler's
// prefix sharing finds that most of it is in its cache already. When it gets too long, the oldest
// turns go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"
#include "mainspring/models/model_text.h"

namespace mainspring::cli {

class Conversation {
 public:
  /// `text` outlives it; both its parts are there. `system` may be empty: then there is no system
  /// message.
  Conversation(const ModelText& text, std::string system);

  /// Forgets all but the system message.
  void reset();
  void add_user(std::string text);
  void add_assistant(std::string text);
  /// Takes back the last message.
  void drop_last();

  /// The tokens up to the header of the assistant's next message, at most `max_tokens` of them: the
  /// oldest turns (of a user's message and its answer) are forgotten to get there, and their number
  /// is given. Errors: resource exhausted if the last message alone is too long; those of the
  /// template and tokenizer.
  struct Prompt {
    std::vector<int32_t> tokens;
    int64_t forgotten_turns = 0;
  };
  Result<Prompt> prompt(int64_t max_tokens);

  /// The chat as one row of training data: {"messages": [...]}.
  std::string to_row() const;
  size_t num_messages() const { return messages_.size(); }

 private:
  size_t first_turn() const;

  const ModelText& text_;
  std::string system_;
  Json messages_;
};

}  // namespace mainspring::cli

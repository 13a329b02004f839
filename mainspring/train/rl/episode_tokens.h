// EpisodeTokens: an episode's observations and replies as the ids of its trajectory.
//
// The one idea: a reply stays the ids that were sampled, never text that is tokenized again. What
// a chat template puts behind a reply (its end of turn, the next messages, the next header) is
// rendered and only that is encoded; if the template no longer begins with what the policy saw, a
// new branch begins with the whole of it.
#pragma once

#include <cstdint>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/env/environment.h"
#include "mainspring/models/model_text.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/train/rl/trajectory.h"

namespace mainspring {

/// Threads: one caller. `text` outlives it.
class EpisodeTokens {
 public:
  explicit EpisodeTokens(const ModelText& text) : text_(text) {}

  /// Appends what the environment says. Errors: those of the template and the tokenizer; failed
  /// precondition for messages without a tokenizer and template.
  Status observe(const Observation& observation);

  /// Appends a sampled reply and gives it as an action. `version`: of the weights it was sampled
  /// from. Errors: those of the tokenizer.
  Result<Action> reply(const SampleResult& result);

  /// The sequence that the next reply continues. Precondition: observed.
  const std::vector<int32_t>& tokens() const { return branches_.back().tokens; }
  std::vector<Branch> take() { return std::move(branches_); }

 private:
  Status observe_messages(const std::vector<EnvMessage>& messages);
  Result<std::string> render(bool add_generation_prompt) const;
  Result<std::vector<int32_t>> encode(std::string_view text) const;
  void append(const std::vector<int32_t>& tokens);

  const ModelText& text_;
  std::vector<EnvMessage> messages_;
  std::vector<Branch> branches_;
  std::string seen_;        // the text that the current branch's last prompt was encoded from
  std::string reply_text_;  // of the last reply
  std::string end_text_;    // how its last token is spelled, if that is a control token
};

}  // namespace mainspring

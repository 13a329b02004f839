#include "mainspring/sample/penalties.h"

namespace mainspring {

TokenHistory::Entry& TokenHistory::entry(int32_t token) {
  const auto [found, is_new] = place_.emplace(token, entries_.size());
  if (is_new) entries_.push_back({token, 0});
  return entries_[found->second];
}

void TokenHistory::add_prompt(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) entry(token);
}

void apply_penalties(const Penalties& penalties, const TokenHistory& history,
                     std::span<float> logits) {
  for (const TokenHistory::Entry& entry : history.entries()) {
    float& logit = logits[static_cast<size_t>(entry.token)];
    if (penalties.repetition != 1.0f) {
      logit = logit > 0.0f ? logit / penalties.repetition : logit * penalties.repetition;
    }
    if (entry.reply_count == 0) continue;
    logit -= penalties.frequency * static_cast<float>(entry.reply_count);
    logit -= penalties.presence;
  }
}

}  // namespace mainspring

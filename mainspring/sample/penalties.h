// Penalties: logits made smaller for tokens that a sequence has already (docs/exactness.md, rule
// 19: before every other processor).
//
// Definitions, for a logit l of a token, in this order and in f32:
//   repetition r  for tokens of prompt and reply:  l = l / r if l > 0, else l * r.
//   frequency f   for tokens of the reply:         l = l - f * (its count in the reply).
//   presence p    for tokens of the reply:         l = l - p.
// Sources: repetition as Keskar et al. 2019 (arXiv:1909.05858) and the transformers and vLLM
// libraries have it; presence and frequency as OpenAI's API defines them.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace mainspring {

/// Defaults change nothing.
struct Penalties {
  float repetition = 1.0f;
  float presence = 0.0f;
  float frequency = 0.0f;

  bool any() const { return repetition != 1.0f || presence != 0.0f || frequency != 0.0f; }
};

/// The distinct tokens of a sequence, with their counts in the reply.
class TokenHistory {
 public:
  struct Entry {
    int32_t token = 0;
    int32_t reply_count = 0;
  };

  void add_prompt(std::span<const int32_t> tokens);
  void add_reply(int32_t token) { ++entry(token).reply_count; }
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& entry(int32_t token);

  std::vector<Entry> entries_;
  std::unordered_map<int32_t, size_t> place_;
};

/// Changes the logits of the history's tokens. Precondition: each is an index of `logits`.
/// Cost: linear in the distinct tokens.
void apply_penalties(const Penalties& penalties, const TokenHistory& history,
                     std::span<float> logits);

}  // namespace mainspring

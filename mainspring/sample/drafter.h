// Drafters: guesses of what a sample says next, to be checked in one pass (docs/exactness.md, rule
// 21).
//
// The one idea: a guess costs one more row of the next step and is accepted only if it is the token
// that rule 19 gives there, so guesses change how long a result takes and no bit of it. A drafter
// may therefore be wrong, late or absent. Internal to sample/.
#pragma once

#include <memory>
#include <span>

#include "mainspring/base/status.h"
#include "mainspring/sample/sample_state.h"

namespace mainspring {

/// A sample and how many guesses it can use.
struct DraftWish {
  SampleState* sample = nullptr;
  int32_t wanted = 0;
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  /// Fills sample->draft with up to `wanted` tokens that may follow its tokens so far.
  virtual void draft(std::span<const DraftWish> wishes) = 0;
  /// The sample gives up its memory.
  virtual void release(SampleState& sample) = 0;
};

/// The drafter that `options.speculation` asks for; null if it asks for none. Errors: resource
/// exhausted; not found for a parameter that the draft model lacks.
Result<std::unique_ptr<Drafter>> make_drafter(Executor& executor, const SamplerOptions& options);

/// Guesses from the sample's own tokens (look_up).
std::unique_ptr<Drafter> make_prompt_lookup(int32_t max_ngram);

/// What followed the last few tokens when they stood before: the longest of `max_ngram` down to 2
/// last tokens that occurs earlier, its latest occurrence with `wanted` tokens behind it, else the
/// one with the most. Source: Saxena 2023, "Prompt lookup decoding".
/// Cost: max_ngram passes over the tokens.
std::vector<int32_t> look_up(std::span<const int32_t> tokens, int32_t max_ngram, int32_t wanted);

}  // namespace mainspring

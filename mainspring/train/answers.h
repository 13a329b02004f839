// Answers: what the model in training says to a few prompts, with the sampler on the trainer's own
// weights.
#pragma once

#include <string>
#include <vector>

#include "mainspring/engine/engine.h"
#include "mainspring/models/model_text.h"
#include "mainspring/run/run_folder.h"

namespace mainspring {

struct AnswerOptions {
  std::vector<std::string> prompts;  // user turns; plain text for a model without a chat template
  int64_t max_tokens = 64;
  int64_t step = 0;
};

/// Greedy answers, one sample per prompt, for samples/ and the page.
/// Errors: those of the chat template and the sampler.
Result<std::vector<RunSample>> answer_prompts(Engine& engine, ModelId id, const ModelText& text,
                                              const AnswerOptions& options);

}  // namespace mainspring

// The flags of speculation: --speculate and --draft-model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"
#include "mainspring/sample/sampler.h"

namespace mainspring::cli {

struct SpeculationFlags {
  int64_t max_draft = 0;
  std::string draft_model;  // empty: prompt look-up

  void declare(Flags& flags);
};

/// What the flags ask for, and the draft model that the sampler borrows.
struct OpenedSpeculation {
  Speculation speculation;
  std::unique_ptr<ModelSession> draft;  // null without --draft-model
};

/// Errors: invalid argument if a draft model is given without guesses to make, or has another
/// tokenizer than the model (another size of vocabulary, where one of them has no tokenizer); those
/// of opening it.
Result<OpenedSpeculation> open_speculation(const SpeculationFlags& flags,
                                           const ModelSession& session);

}  // namespace mainspring::cli

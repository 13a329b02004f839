// Scorer: log-probabilities of given tokens by the trainer's forward pass.
//
// The one idea: packed whole sequences through the decoder and the trainer's own log-probability
// op, as in training; so a score is what the trainer computes, and by docs/exactness.md what the
// sampler reported. Threads: one caller.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/sample/forward_model.h"

namespace mainspring {

/// Nothing here changes a bit.
struct ScorerOptions {
  int64_t max_rows = 2048;          // of one pass; a longer sequence gets a pass of its own
  int64_t max_sequence_tokens = 0;  // 0: the model's context length
};

struct ScoreRow {
  std::vector<int32_t> tokens;
  int32_t adapter = -1;  // index into ForwardModel::adapters; -1: base
};

class Scorer {
 public:
  /// `executor` and the model's parameters outlive the scorer. Nothing is compiled yet.
  Scorer(Executor& executor, ForwardModel model, ScorerOptions options);

  /// Errors: invalid argument for a token outside the vocabulary, an unknown adapter, or more
  /// tokens than max_sequence_tokens.
  Status check(const ScoreRow& row) const;

  /// Per row and token the log-probability given the tokens before it; a row's first entry is NaN.
  /// Errors: those of check, with "row i: ", before anything runs; not found for a missing
  /// parameter; resource exhausted if the memory of a pass cannot be had.
  Result<std::vector<std::vector<float>>> score(std::span<const ScoreRow> rows);

 private:
  Status ensure_capacity(int64_t rows);

  Executor& executor_;
  ForwardModel model_;
  ScorerOptions options_;
  int64_t capacity_ = 0;
  std::unique_ptr<Forward> forward_;
};

}  // namespace mainspring

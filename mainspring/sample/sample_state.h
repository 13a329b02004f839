// SampleState: one sample between its request and its result.
//
// The one idea: the tokens so far (prompt, then reply) and how many of them are in the cache say
// all about where a sample stands; queued, prefilling, decoding and preempted differ in nothing
// else. Not for deciding what runs: that is sampler.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/sample/kv_pool.h"
#include "mainspring/sample/logits.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/sample/stop_text.h"

namespace mainspring {

struct SampleState;

/// What the samples of one request share.
struct RequestState {
  int64_t id = 0;
  SampleRequest request;
  uint64_t seed = 0;
  bool cancelled = false;
  /// By prompt position, entry 0 is NaN; empty unless asked for.
  std::vector<float> prompt_logprobs;
  std::shared_ptr<TokenConstraint> constraint;  // null: none; shared by requests of one schema
  /// Positions whose successor has its log-probability.
  int64_t num_scored = 0;
  /// Samples 1 to n - 1, until sample 0 has computed the prompt for all of them.
  std::vector<std::unique_ptr<SampleState>> waiting;

  int64_t prompt_size() const { return static_cast<int64_t>(request.prompt.size()); }
  bool needs_scores() const {
    return request.params.prompt_logprobs && num_scored < prompt_size() - 1;
  }
};

/// What was chosen for one place.
struct Chosen {
  Choice choice;
  std::vector<TopLogprob> top;
};

/// What a draft model has of a sample (model_drafter.cc).
struct DraftCache {
  std::vector<int32_t> pages;
  int64_t num_cached = 0;
  int64_t num_confirmed = 0;     // cached positions that hold the sample's own tokens
  std::vector<int32_t> guesses;  // in the positions behind them
};

struct SampleState {
  std::shared_ptr<RequestState> request;
  int32_t index = 0;  // within the request
  SampleResult result;
  StopText stop_text;
  std::unique_ptr<TextStream> stream;  // null: no text

  std::vector<int32_t> pages;
  int64_t num_dropped = 0;    // first pages given up: no query sees so far back any more
  int64_t num_cached = 0;     // positions whose keys and values are in `pages`, or were
  KvPool::Prefix prefix = 0;  // of the first num_published pages
  int64_t num_published = 0;

  TokenHistory history;  // for penalties; empty without them
  TokenConstraint::State constraint_state = 0;

  // This step's part of the batch.
  int64_t num_planned = 0;     // rows, those of the draft included
  std::vector<int32_t> draft;  // guesses of the tokens to come
  int32_t draft_limit = 0;     // follows how many of the last ones were right; 0: not set yet
  DraftCache draft_cache;
  bool is_finished = false;

  SampleState(std::shared_ptr<RequestState> owner, int32_t sample,
              std::unique_ptr<TextStream> text);

  const SamplingParams& params() const { return request->request.params; }
  int64_t num_tokens() const {
    return request->prompt_size() + static_cast<int64_t>(result.tokens.size());
  }
  /// Of prompt, reply and, behind them, the draft.
  int32_t token(int64_t position) const;
  /// The kPageTokens tokens of a full page.
  std::array<int32_t, kPageTokens> page_tokens(int64_t page) const;
  /// Rows until the next token can be chosen.
  int64_t num_missing() const { return num_tokens() - num_cached; }
  Law law() const;
  const TokenHistory* penalised_history() const;
  /// What may come next by the constraint; no set without one.
  AllowedTokens allowed_tokens() const;
  /// Of the reply's token `index`.
  float uniform(int64_t index) const;

  /// Adds a token to the result. Returns why the sample ends, if it does; `text` gets what may be
  /// shown.
  std::optional<StopReason> append(const Chosen& chosen, int64_t max_sequence_tokens,
                                   std::string& text);
  /// Completes the result's text. Returns what was still held back.
  std::string finish_text();
};

int64_t pages_of(int64_t positions);

}  // namespace mainspring

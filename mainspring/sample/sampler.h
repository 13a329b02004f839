// Sampler: many requests, one batch: continuous batching over a paged key/value cache.
//
// The one idea: every running sample is "tokens so far, of which the first num_cached are in its
// pages"; a step computes the next rows of some of them. A prompt chunk, a decode step and the
// recomputation of a preempted sample are the same thing, and by docs/exactness.md (rules 7, 18,
// 19) none of batch composition, order of arrival, chunking, prefix sharing and preemption changes
// a bit of a result. Not for tokenizers or files: prompts are token numbers, text comes through
// TextStream. Threads: one caller. Design note: mainspring/sample/README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/sample/forward_model.h"
#include "mainspring/sample/sampling_params.h"
#include "mainspring/sample/token_constraint.h"

namespace mainspring {

/// Turns one sample's tokens into text.
class TextStream {
 public:
  virtual ~TextStream() = default;
  /// The text that is certain after one more token: whole characters only, maybe none.
  virtual std::string push(int32_t token) = 0;
  /// What was held back.
  virtual std::string finish() = 0;
};

using MakeTextStream = std::function<std::unique_ptr<TextStream>()>;

/// Guesses of further tokens that are computed together with the next one and kept where they are
/// what the sampler chooses there anyway (docs/exactness.md, rule 21): fewer steps, the same bits.
struct Speculation {
  int32_t max_draft = 0;  // guesses per sample and step; 0: none
  int32_t max_ngram = 3;  // prompt look-up: last tokens that must have stood before, at least 2
  /// Guesses come from this model instead of the tokens so far. Its tokens mean the same as the
  /// sampler's; its parameters outlive the sampler.
  std::optional<ForwardModel> draft_model;
};

/// How the sampler computes; nothing here changes a bit of a result except `run_seed` for requests
/// without a seed.
struct SamplerOptions {
  int32_t max_batch = 64;           // samples that run at once
  int32_t max_rows = 512;           // rows of one step; longer prompts are computed in chunks
  int64_t max_sequence_tokens = 0;  // prompt and reply; 0: the model's context length
  /// Size of the cache in pages of kPageTokens positions; 0: what max_batch sequences of 1,024
  /// tokens need, within 512 MB, or one of max_sequence_tokens if that is more.
  int32_t cache_pages = 0;
  bool share_prefixes = true;
  Speculation speculation;
  uint64_t run_seed = 0;
  /// Empty: no text, and stop strings are refused.
  MakeTextStream make_text;
  /// What each token adds to a text, "" for control tokens; null: json_schema is refused.
  std::shared_ptr<const TokenBytes> token_bytes;
};

struct SampleRequest {
  std::vector<int32_t> prompt;  // at least one token
  SamplingParams params;
  int32_t adapter = kBaseOnly;  // index into ForwardModel::adapters
  /// Names the request for the seed drawn when params.seed is missing (a row's number in its file).
  /// -1: the count of requests before it.
  int64_t place = -1;

  static constexpr int32_t kBaseOnly = -1;
};

enum class StopReason {
  kMaxTokens,   // "max_tokens"
  kStopToken,   // "stop_token"; the token is the last of `tokens` and adds no text
  kStopString,  // "stop_string"; `tokens` end with the token that completed it
  kContext,     // "context": max_sequence_tokens are used up
  kCancelled,   // "cancelled"
  kSchema,      // "schema": the JSON that was asked for is whole
  kDeadEnd,     // "dead_end": the JSON is not whole, and no token of the vocabulary goes on with it
  kNonFinite,   // "non_finite": the model gave NaN or infinite logits; no token was chosen
};
std::string_view stop_reason_name(StopReason reason);

/// An alternative at one place, by raw log-probability.
struct TopLogprob {
  int32_t token = 0;
  float raw_logprob = 0.0f;
};

/// One finished sample. logprobs, raw_logprobs and kept are as long as tokens.
struct SampleResult {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // under the law sampled from, penalties included; 0 when greedy
  std::vector<float>
      raw_logprobs;  // under the model's own law: the trainer's log-probability, bit for bit
  /// Size of the set the token was chosen from. Every processor keeps a prefix of the order (logit
  /// after penalties descending, id ascending), so the size and the logits rebuild the set (rule
  /// 20).
  std::vector<int32_t> kept;
  std::vector<std::vector<TopLogprob>> top_logprobs;  // per token, if asked for: best first
  std::string text;
  StopReason stop_reason = StopReason::kMaxTokens;
  uint64_t seed = 0;
  uint64_t weight_version = 0;
  /// Of each prompt token given those before it, if asked for; entry 0 is NaN (nothing predicts
  /// it). Filled in every sample of the request.
  std::vector<float> prompt_logprobs;
};

/// What one step did for one sample: a token, the end, or both.
struct SampleEvent {
  int64_t request = 0;
  int32_t sample = 0;                  // 0 <= sample < n
  int32_t token = -1;                  // -1: none (a sample that ended without one)
  std::string text;                    // further text that no stop string can take back
  std::optional<SampleResult> result;  // set once, when the sample ends
};

/// Counts since creation, for logs and tests.
struct SamplerStats {
  int64_t steps = 0;
  int64_t rows = 0;  // computed
  int64_t sampled_tokens = 0;
  int64_t shared_tokens = 0;  // prompt positions taken from the cache
  int64_t preemptions = 0;
  int64_t peak_pages = 0;       // of the cache, held by sequences at once
  int64_t num_pages = 0;        // of the cache
  int64_t page_bytes = 0;       // of one, in all layers
  int64_t drafted_tokens = 0;   // guesses that were checked
  int64_t accepted_tokens = 0;  // guesses that were right
  int64_t draft_ns = 0;
  int64_t run_ns = 0;     // inside the executor
  int64_t choose_ns = 0;  // logits to tokens
  int64_t step_ns = 0;    // all of step()
};

class Sampler {
 public:
  /// `executor` and the model's parameters outlive the sampler. Errors: resource exhausted if cache
  /// or arena cannot be had; invalid argument for adapters that do not match the model.
  static Result<std::unique_ptr<Sampler>> create(Executor& executor, ForwardModel model,
                                                 SamplerOptions options);
  virtual ~Sampler() = default;

  /// Whether submit would take the request. Errors: invalid argument for bad parameters, an empty
  /// or too long prompt, tokens outside the vocabulary or an unknown adapter; resource exhausted,
  /// with numbers, if prompt and max_tokens can never fit the cache.
  virtual Status check(const SampleRequest& request) const = 0;

  /// Queues a request and returns its number. A request that fits an empty cache never fails later,
  /// only waits. Errors: those of check; resource exhausted if memory for prompt log-probabilities
  /// cannot be had.
  virtual Result<int64_t> submit(SampleRequest request) = 0;

  /// Ends all samples of a request; their results come with the next step (kCancelled).
  virtual void cancel(int64_t request) = 0;

  /// Computes one batch. Events are grouped by sample, not ordered between samples.
  virtual std::vector<SampleEvent> step() = 0;
  virtual bool is_idle() const = 0;

  /// Steps until idle. results[i] are the samples of requests[i].
  /// Errors: those of submit, before anything runs, with "request i: ".
  Result<std::vector<std::vector<SampleResult>>> run(std::vector<SampleRequest> requests);

  /// Tells that the weights of `adapter` (kBaseOnly: of the base, so of all) were changed in place:
  /// cached prefixes computed with them are forgotten. Errors: failed precondition unless idle.
  virtual Status set_weight_version(int32_t adapter, uint64_t version) = 0;

  virtual const SamplerOptions& options() const = 0;  // with the 0s resolved
  virtual const SamplerStats& stats() const = 0;
};

}  // namespace mainspring

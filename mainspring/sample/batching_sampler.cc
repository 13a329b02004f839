// Requests in, results out, and the order of a step.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "mainspring/base/check.h"
#include "mainspring/sample/batching_sampler.h"
#include "mainspring/sample/json_schema.h"

namespace mainspring {
namespace {

constexpr int64_t kDefaultCacheBytes = int64_t{512} << 20;
/// Guesses of one step: with more rows a step is bound by arithmetic, and checking costs what
/// choosing one by one would.
constexpr int64_t kMaxDraftRows = 64;

/// Keys that the layer which sees furthest back sees; 0: all.
int64_t widest_window(const ModelConfig& config) {
  int64_t widest = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int64_t window = layer_window(config, layer);
    if (window == 0) return 0;
    widest = std::max(widest, window);
  }
  return widest;
}

}  // namespace

int64_t sampler_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

SampleEvent event_of(const SampleState& sample) {
  SampleEvent event;
  event.request = sample.request->id;
  event.sample = sample.index;
  return event;
}

Status BatchingSampler::init() {
  const ModelConfig& config = model_.config;
  if (options_.max_batch < 1 || options_.max_rows < 1 || options_.cache_pages < 0) {
    return invalid_argument("a sampler needs max_batch and max_rows of at least 1, got " +
                            std::to_string(options_.max_batch) + " and " +
                            std::to_string(options_.max_rows));
  }
  if (options_.max_sequence_tokens <= 0) options_.max_sequence_tokens = config.context_length;
  const Speculation& speculation = options_.speculation;
  if (speculation.max_draft < 0 || speculation.max_draft > kMaxDraftRows ||
      speculation.max_ngram < 2) {
    return invalid_argument("speculation: expected 0 to " + std::to_string(kMaxDraftRows) +
                            " guesses and at least 2 tokens to look up, got " +
                            std::to_string(speculation.max_draft) + " and " +
                            std::to_string(speculation.max_ngram));
  }
  max_draft_rows_ =
      std::min<int64_t>(kMaxDraftRows, int64_t{options_.max_batch} * speculation.max_draft);
  options_.max_rows =
      std::max(options_.max_rows, static_cast<int32_t>(options_.max_batch + max_draft_rows_));
  if (options_.cache_pages == 0) options_.cache_pages = default_pages();
  MS_ASSIGN_OR_RETURN(
      logits_,
      Forward::create(executor_, model_,
                      {.ending = Forward::Ending::kLogits,
                       .capacity = {options_.max_rows, options_.max_batch + max_draft_rows_},
                       .rope_positions = options_.max_sequence_tokens}));
  MS_ASSIGN_OR_RETURN(pool_, KvPool::create(executor_, {.dtype = model_.compute,
                                                        .layers = config.layers,
                                                        .row_elements = kv_row_elements(
                                                            config.kv_heads, config.head_width),
                                                        .num_pages = options_.cache_pages}));
  stats_.num_pages = pool_->num_pages();
  stats_.page_bytes = page_bytes();
  scheduler_.emplace(*pool_, Scheduler::Options{.max_batch = options_.max_batch,
                                                .share_prefixes = options_.share_prefixes,
                                                .window = widest_window(config),
                                                .weights_key =
                                                    [this](const SampleRequest& request) {
                                                      return weights_key(request.adapter);
                                                    },
                                                .on_release =
                                                    [this](SampleState& sample) {
                                                      if (drafter_) drafter_->release(sample);
                                                    }});
  MS_ASSIGN_OR_RETURN(drafter_, make_drafter(executor_, options_));
  return {};
}

/// Keys and values of 64 positions in all layers.
int64_t BatchingSampler::page_bytes() const {
  const ModelConfig& config = model_.config;
  return 2 * config.layers *
         dtype_bytes(model_.compute,
                     kPageTokens * kv_row_elements(config.kv_heads, config.head_width));
}

/// What a full batch of usual sequences needs, within kDefaultCacheBytes, but room for the longest
/// one.
int32_t BatchingSampler::default_pages() const {
  const int64_t usual = pages_of(std::min<int64_t>(1024, options_.max_sequence_tokens));
  const int64_t wanted = std::min(options_.max_batch * usual, kDefaultCacheBytes / page_bytes());
  return static_cast<int32_t>(std::max(wanted, pages_of(options_.max_sequence_tokens)));
}

Status BatchingSampler::check(const SampleRequest& request) const {
  MS_RETURN_IF_ERROR(validate(request.params, model_.config.vocabulary));
  if (!request.params.stop.empty() && !options_.make_text) {
    return invalid_argument("stop: stop strings need a tokenizer, and this sampler has none");
  }
  if (!request.params.json_schema.empty()) {
    MS_RETURN_IF_ERROR(constraint_of(request.params.json_schema).status());
  }
  if (request.prompt.empty())
    return invalid_argument("prompt: expected at least one token, got none");
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t token = request.prompt[i];
    if (token >= 0 && token < model_.config.vocabulary) continue;
    return invalid_argument("prompt: token " + std::to_string(i) + " is " + std::to_string(token) +
                            ", expected 0 to " + std::to_string(model_.config.vocabulary - 1));
  }
  if (request.adapter < SampleRequest::kBaseOnly ||
      request.adapter >= static_cast<int32_t>(model_.adapters.size())) {
    return invalid_argument("adapter: " + std::to_string(request.adapter) + " of " +
                            std::to_string(model_.adapters.size()) + " adapters");
  }
  const auto size = static_cast<int64_t>(request.prompt.size());
  const int64_t room = options_.max_sequence_tokens - size;
  if (room < 0 || (room == 0 && request.params.max_tokens > 0)) {
    return invalid_argument("prompt: " + std::to_string(size) + " tokens leave no room in " +
                            std::to_string(options_.max_sequence_tokens) + " positions");
  }
  const int64_t longest = size + std::min<int64_t>(request.params.max_tokens, room);
  if (pages_of(longest) > pool_->num_pages()) {
    return resource_exhausted("a prompt of " + std::to_string(size) + " tokens and max_tokens " +
                              std::to_string(request.params.max_tokens) + " need " +
                              std::to_string(pages_of(longest)) + " pages of " +
                              std::to_string(kPageTokens) + " positions, the cache has " +
                              std::to_string(pool_->num_pages()));
  }
  return {};
}

Result<std::shared_ptr<TokenConstraint>> BatchingSampler::constraint_of(
    const std::string& schema) const {
  constexpr size_t kMostSchemas = 64;
  if (options_.token_bytes == nullptr) {
    return invalid_argument("json_schema: needs a byte-level tokenizer, and this sampler has none");
  }
  const auto known = constraints_.find(schema);
  if (known != constraints_.end()) return known->second;
  MS_ASSIGN_OR_RETURN(std::unique_ptr<ByteAutomaton> automaton, compile_json_schema(schema));
  auto made = std::make_shared<TokenConstraint>(std::move(automaton), options_.token_bytes);
  if (made->must_end(made->start())) {
    return invalid_argument("json_schema: no token of this vocabulary begins such a text");
  }
  if (constraints_.size() >= kMostSchemas) {
    std::erase_if(constraints_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  constraints_.emplace(schema, made);
  return made;
}

SamplePtr BatchingSampler::make_sample(const std::shared_ptr<RequestState>& request,
                                       int32_t index) {
  return std::make_unique<SampleState>(request, index,
                                       options_.make_text ? options_.make_text() : nullptr);
}

Result<int64_t> BatchingSampler::submit(SampleRequest request) {
  MS_RETURN_IF_ERROR(check(request));
  if (request.params.prompt_logprobs && scores_ == nullptr) {
    MS_ASSIGN_OR_RETURN(scores_,
                        Forward::create(executor_, model_,
                                        {.ending = Forward::Ending::kLogprob,
                                         .capacity = {options_.max_rows, options_.max_rows},
                                         .rope_positions = options_.max_sequence_tokens}));
  }
  auto state = std::make_shared<RequestState>();
  state->id = num_requests_++;
  state->request = std::move(request);
  const SampleRequest& kept = state->request;
  state->seed = kept.params.seed.value_or(
      draw_seed(options_.run_seed, kept.place >= 0 ? kept.place : state->id));
  if (!kept.params.json_schema.empty()) {
    MS_ASSIGN_OR_RETURN(state->constraint, constraint_of(kept.params.json_schema));
  }
  if (kept.params.prompt_logprobs) {
    state->prompt_logprobs.assign(kept.prompt.size(), std::numeric_limits<float>::quiet_NaN());
  }
  scheduler_->enqueue(make_sample(state, 0));
  for (int32_t i = 1; i < kept.params.n; ++i) state->waiting.push_back(make_sample(state, i));
  return state->id;
}

void BatchingSampler::cancel(int64_t request) {
  const auto end_one = [&](SampleState& sample) {
    if (sample.request->id != request || sample.is_finished) return;
    finish(sample, StopReason::kCancelled, event_of(sample));
  };
  for (const SamplePtr& sample : scheduler_->queue()) end_one(*sample);
  for (const SamplePtr& sample : scheduler_->running()) end_one(*sample);
  scheduler_->remove_finished();
}

uint64_t BatchingSampler::adapter_version(int32_t adapter) const {
  return adapter < 0 ? 0 : model_.adapters[static_cast<size_t>(adapter)].weight_version;
}

uint64_t BatchingSampler::weights_key(int32_t adapter) const {
  return KvPool::weights_key(adapter, model_.weight_version, adapter_version(adapter));
}

Status BatchingSampler::set_weight_version(int32_t adapter, uint64_t version) {
  if (!is_idle()) return failed_precondition("weights change only while no request is running");
  if (adapter >= static_cast<int32_t>(model_.adapters.size())) {
    return invalid_argument("adapter " + std::to_string(adapter) + " does not exist");
  }
  if (adapter < 0) {
    model_.weight_version = version;
    pool_->forget_all();
  } else {
    model_.adapters[static_cast<size_t>(adapter)].weight_version = version;
  }
  return {};
}

std::vector<SampleEvent> BatchingSampler::step() {
  const int64_t start = sampler_clock_ns();
  scheduler_->admit();
  MS_CHECK(scheduler_->queue().empty() || !scheduler_->running().empty(),
           "requests wait although nothing runs");
  draft();
  plan();
  run_scores();
  run_logits();
  choose_all();
  for (const SamplePtr& sample : scheduler_->running()) {
    if (sample->is_finished || sample->params().max_tokens > 0 || sample->request->needs_scores())
      continue;
    finish(*sample, StopReason::kMaxTokens, event_of(*sample));
  }
  scheduler_->remove_finished();
  ++stats_.steps;
  stats_.shared_tokens = scheduler_->stats().shared_tokens;
  stats_.preemptions = scheduler_->stats().preemptions;
  stats_.step_ns += sampler_clock_ns() - start;
  return std::exchange(events_, {});
}

}  // namespace mainspring

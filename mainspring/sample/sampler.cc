#include "mainspring/sample/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "mainspring/base/check.h"
#include "mainspring/sample/sample_state.h"
#include "mainspring/sample/scheduler.h"

namespace mainspring {
namespace {

constexpr int64_t kDefaultCacheBytes = int64_t{512} << 20;

int64_t now_ns() {
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

/// Some samples' next rows as one activation.
struct StepBatch {
  std::vector<SampleState*> samples;  // one per segment
  std::vector<Segment> segments;
  std::vector<KvSequence> sequences;
  std::vector<int32_t> picked;
  std::vector<SampleState*> pickers;  // whose row each pick is (kLogits)
  int32_t num_rows = 0;

  void clear() {
    samples.clear();
    segments.clear();
    sequences.clear();
    picked.clear();
    pickers.clear();
    num_rows = 0;
  }
};

class BatchingSampler final : public Sampler {
 public:
  BatchingSampler(Executor& executor, ForwardModel model, SamplerOptions options)
      : executor_(executor),
        model_(std::move(model)),
        options_(std::move(options)),
        chooser_(executor.row_math(), model_.config.vocabulary) {}

  Status init();
  Status check(const SampleRequest& request) const override;
  Result<int64_t> submit(SampleRequest request) override;
  void cancel(int64_t request) override;
  std::vector<SampleEvent> step() override;
  bool is_idle() const override { return scheduler_->is_empty() && events_.empty(); }
  Status set_weight_version(int32_t adapter, uint64_t version) override;
  const SamplerOptions& options() const override { return options_; }
  const SamplerStats& stats() const override { return stats_; }

 private:
  int32_t default_pages() const;
  SamplePtr make_sample(const std::shared_ptr<RequestState>& request, int32_t index);

  // What runs.
  void plan();
  void add_rows(StepBatch& batch, SampleState& sample, int64_t rows);
  RowTable fill_tokens(const StepBatch& batch, int32_t* tokens) const;
  void run_scores();
  void run_logits();
  void run(Forward& forward, StepBatch& batch, const RowTable& table);
  void take_rows(const StepBatch& batch);

  // What comes of it.
  void choose_all();
  void finish(SampleState& sample, StopReason reason, SampleEvent event);

  uint64_t weights_key(int32_t adapter) const;
  uint64_t adapter_version(int32_t adapter) const;

  Executor& executor_;
  ForwardModel model_;
  SamplerOptions options_;
  TokenChooser chooser_;
  std::unique_ptr<Forward> logits_;
  std::unique_ptr<Forward> scores_;  // made when first asked for
  std::unique_ptr<KvPool> pool_;
  SamplerStats stats_;

  int64_t num_requests_ = 0;
  std::optional<Scheduler> scheduler_;  // made with the pool
  StepBatch logits_batch_;
  StepBatch score_batch_;
  struct Job {
    SampleState* sample;
    const float* logits;
    Chosen chosen;
  };
  std::vector<Job> jobs_;
  std::vector<SampleEvent> events_;  // of this step, and of what was cancelled before it
};

Status BatchingSampler::init() {
  const ModelConfig& config = model_.config;
  if (options_.max_batch < 1 || options_.max_rows < 1 || options_.cache_pages < 0) {
    return invalid_argument("a sampler needs max_batch and max_rows of at least 1, got " +
                            std::to_string(options_.max_batch) + " and " +
                            std::to_string(options_.max_rows));
  }
  if (options_.max_sequence_tokens <= 0) options_.max_sequence_tokens = config.context_length;
  options_.max_rows = std::max(options_.max_rows, options_.max_batch);
  if (options_.cache_pages == 0) options_.cache_pages = default_pages();
  MS_ASSIGN_OR_RETURN(logits_, Forward::create(executor_, model_,
                                               {.ending = Forward::Ending::kLogits,
                                                .capacity = {options_.max_rows, options_.max_batch},
                                                .rope_positions = options_.max_sequence_tokens}));
  MS_ASSIGN_OR_RETURN(
      pool_, KvPool::create(executor_, {.dtype = model_.compute,
                                        .layers = config.layers,
                                        .row_elements = config.kv_heads * config.head_width,
                                        .num_pages = options_.cache_pages}));
  scheduler_.emplace(*pool_,
                     Scheduler::Options{.max_batch = options_.max_batch,
                                        .share_prefixes = options_.share_prefixes,
                                        .weights_key = [this](const SampleRequest& request) {
                                          return weights_key(request.adapter);
                                        }});
  return {};
}

/// What a full batch of usual sequences needs, within kDefaultCacheBytes, but room for the longest
/// one.
int32_t BatchingSampler::default_pages() const {
  const ModelConfig& config = model_.config;
  const int64_t page_bytes =
      2 * config.layers *
      dtype_bytes(model_.compute, kPageTokens * config.kv_heads * config.head_width);
  const int64_t usual = pages_of(std::min<int64_t>(1024, options_.max_sequence_tokens));
  const int64_t wanted = std::min(options_.max_batch * usual, kDefaultCacheBytes / page_bytes);
  return static_cast<int32_t>(std::max(wanted, pages_of(options_.max_sequence_tokens)));
}

// Requests.
// ----------------------------------------------------------------------------------------

Status BatchingSampler::check(const SampleRequest& request) const {
  MS_RETURN_IF_ERROR(validate(request.params, model_.config.vocabulary));
  if (!request.params.stop.empty() && !options_.make_text) {
    return invalid_argument("stop: stop strings need a tokenizer, and this sampler has none");
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

// What runs.
// ---------------------------------------------------------------------------------------

/// Every decoding sample gets its row, prefills share what is left of the step, oldest first.
void BatchingSampler::plan() {
  logits_batch_.clear();
  score_batch_.clear();
  int64_t decoding = 0;
  for (const SamplePtr& sample : scheduler_->running())
    decoding += sample->num_missing() == 1 ? 1 : 0;
  int64_t room = options_.max_rows - decoding;
  int64_t score_room = options_.max_rows;
  const std::vector<SamplePtr>& running = scheduler_->running();
  for (size_t i = 0; i < running.size(); ++i) {
    SampleState& sample = *running[i];
    const bool scores = sample.request->needs_scores() && sample.index == 0;
    int64_t rows = sample.num_missing();
    if (scores) {
      rows = std::min(sample.request->prompt_size() - 1 - sample.num_cached, score_room);
    } else if (rows > 1) {
      rows = std::min(rows, room);
    }
    if (rows == 0 || (!scores && sample.params().max_tokens == 0)) continue;
    if (!scheduler_->ensure_pages(i, sample.num_cached + rows)) break;
    if (scores) {
      score_room -= rows;
    } else if (sample.num_missing() > 1) {
      room -= rows;
    }
    add_rows(scores ? score_batch_ : logits_batch_, sample, rows);
  }
}

void BatchingSampler::add_rows(StepBatch& batch, SampleState& sample, int64_t rows) {
  sample.num_planned = rows;
  batch.segments.push_back({.row_begin = batch.num_rows,
                            .num_rows = static_cast<int32_t>(rows),
                            .position = static_cast<int32_t>(sample.num_cached),
                            .adapter_slot = sample.request->request.adapter,
                            .cache_sequence = static_cast<int32_t>(batch.samples.size())});
  batch.samples.push_back(&sample);
  batch.num_rows += static_cast<int32_t>(rows);
  if (&batch == &score_batch_) {
    for (int32_t row = batch.segments.back().row_begin; row < batch.num_rows; ++row) {
      batch.picked.push_back(row);
    }
  } else if (rows == sample.num_missing()) {
    batch.picked.push_back(batch.num_rows - 1);
    batch.pickers.push_back(&sample);
  }
}

RowTable BatchingSampler::fill_tokens(const StepBatch& batch, int32_t* tokens) const {
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const SampleState& sample = *batch.samples[i];
    for (int64_t row = 0; row < sample.num_planned; ++row) {
      tokens[batch.segments[i].row_begin + row] = sample.token(sample.num_cached + row);
    }
  }
  return {.num_rows = batch.num_rows, .segments = batch.segments, .picked = batch.picked};
}

/// Log-probabilities of prompt tokens, by the trainer's own op.
void BatchingSampler::run_scores() {
  if (score_batch_.samples.empty()) return;
  const RowTable table = fill_tokens(score_batch_, scores_->tokens());
  for (size_t i = 0; i < score_batch_.samples.size(); ++i) {
    const SampleState& sample = *score_batch_.samples[i];
    for (int64_t row = 0; row < sample.num_planned; ++row) {
      scores_->targets()[score_batch_.segments[i].row_begin + row] =
          sample.token(sample.num_cached + row + 1);
    }
  }
  run(*scores_, score_batch_, table);
  for (size_t i = 0; i < score_batch_.samples.size(); ++i) {
    SampleState& sample = *score_batch_.samples[i];
    RequestState& request = *sample.request;
    const float* scores = scores_->result() + score_batch_.segments[i].row_begin;
    for (int64_t row = 0; row < sample.num_planned; ++row) {
      request.prompt_logprobs[static_cast<size_t>(sample.num_cached + row + 1)] = scores[row];
    }
    request.num_scored += sample.num_planned;
  }
  take_rows(score_batch_);
}

void BatchingSampler::run_logits() {
  if (logits_batch_.samples.empty()) return;
  run(*logits_, logits_batch_, fill_tokens(logits_batch_, logits_->tokens()));
  take_rows(logits_batch_);
  for (size_t i = 0; i < logits_batch_.pickers.size(); ++i) {
    SampleState& sample = *logits_batch_.pickers[i];
    const float* logits = logits_->result() + static_cast<int64_t>(i) * model_.config.vocabulary;
    jobs_.push_back({&sample, logits, {}});
    if (sample.request->waiting.empty()) continue;
    for (SampleState* sibling : scheduler_->fork_waiting(sample)) {
      jobs_.push_back({sibling, logits, {}});
    }
  }
}

void BatchingSampler::run(Forward& forward, StepBatch& batch, const RowTable& table) {
  batch.sequences.clear();
  for (const SampleState* sample : batch.samples) batch.sequences.push_back({sample->pages});
  KvView view = pool_->view();
  view.sequences = batch.sequences;
  const int64_t start = now_ns();
  forward.run(table, &view);
  stats_.run_ns += now_ns() - start;
  stats_.rows += batch.num_rows;
}

void BatchingSampler::take_rows(const StepBatch& batch) {
  for (SampleState* sample : batch.samples) {
    sample->num_cached += sample->num_planned;
    scheduler_->publish(*sample);
  }
}

// What comes of it.
// --------------------------------------------------------------------------------

void BatchingSampler::choose_all() {
  const int64_t start = now_ns();
  const auto vocabulary = static_cast<size_t>(model_.config.vocabulary);
  for (Job& job : jobs_) {
    const std::span logits(job.logits, vocabulary);
    Choice& choice = job.chosen.choice;
    choice = chooser_.choose(logits, job.sample->law(), job.sample->uniform());
    const int32_t alternatives = job.sample->params().top_logprobs;
    if (alternatives == 0 || choice.token < 0) continue;
    for (const int32_t token : chooser_.best(logits, alternatives)) {
      job.chosen.top.push_back({token, logits[static_cast<size_t>(token)] - choice.raw_lse});
    }
  }
  for (Job& job : jobs_) {
    SampleState& sample = *job.sample;
    SampleEvent event = event_of(sample);
    event.token = job.chosen.choice.token;
    const auto reason = sample.append(job.chosen, options_.max_sequence_tokens, event.text);
    if (event.token >= 0) ++stats_.sampled_tokens;
    if (reason.has_value()) {
      finish(sample, *reason, std::move(event));
    } else {
      events_.push_back(std::move(event));
    }
  }
  jobs_.clear();
  stats_.choose_ns += now_ns() - start;
}

void BatchingSampler::finish(SampleState& sample, StopReason reason, SampleEvent event) {
  RequestState& request = *sample.request;
  event.text += sample.finish_text();
  if (reason == StopReason::kMaxTokens && sample.stop_text.is_stopped())
    reason = StopReason::kStopString;
  SampleResult& result = sample.result;
  result.stop_reason = reason;
  const int32_t adapter = request.request.adapter;
  result.weight_version = adapter < 0 ? model_.weight_version : adapter_version(adapter);
  result.prompt_logprobs = request.prompt_logprobs;
  event.result = std::move(result);
  events_.push_back(std::move(event));
  scheduler_->release(sample);
  sample.is_finished = true;
  // Siblings that still wait would wait for ever.
  std::vector<SamplePtr> siblings = std::move(request.waiting);
  request.waiting.clear();
  for (const SamplePtr& sibling : siblings) {
    finish(*sibling, reason, event_of(*sibling));
  }
}

std::vector<SampleEvent> BatchingSampler::step() {
  const int64_t start = now_ns();
  scheduler_->admit();
  MS_CHECK(scheduler_->queue().empty() || !scheduler_->running().empty(),
           "requests wait although nothing runs");
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
  stats_.step_ns += now_ns() - start;
  return std::exchange(events_, {});
}

}  // namespace

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxTokens:
      return "max_tokens";
    case StopReason::kStopToken:
      return "stop_token";
    case StopReason::kStopString:
      return "stop_string";
    case StopReason::kContext:
      return "context";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kNonFinite:
      return "non_finite";
  }
  return "";
}

Result<std::unique_ptr<Sampler>> Sampler::create(Executor& executor, ForwardModel model,
                                                 SamplerOptions options) {
  auto sampler = std::make_unique<BatchingSampler>(executor, std::move(model), std::move(options));
  MS_RETURN_IF_ERROR(sampler->init());
  return std::unique_ptr<Sampler>(std::move(sampler));
}

Result<std::vector<std::vector<SampleResult>>> Sampler::run(std::vector<SampleRequest> requests) {
  std::vector<std::vector<SampleResult>> results;
  std::map<int64_t, size_t> index_of;
  for (size_t i = 0; i < requests.size(); ++i) {
    results.emplace_back(static_cast<size_t>(std::max(1, requests[i].params.n)));
    Result<int64_t> id = submit(std::move(requests[i]));
    if (!id.ok()) {
      for (const auto& [submitted, place] : index_of) cancel(submitted);
      while (!is_idle()) step();
      return id.status().with_context("request " + std::to_string(i));
    }
    index_of.emplace(*id, i);
  }
  while (!is_idle()) {
    for (SampleEvent& event : step()) {
      const auto found = index_of.find(event.request);
      if (found == index_of.end() || !event.result.has_value()) continue;
      results[found->second][static_cast<size_t>(event.sample)] = std::move(*event.result);
    }
  }
  return results;
}

}  // namespace mainspring

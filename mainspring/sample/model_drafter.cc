// Guesses from a smaller model, which keeps a cache of its own.
//
// The one idea: the draft model draws with the sample's own law and uniform numbers, so where the
// two models agree on the law they agree on the token, at every temperature. Its cache holds tokens
// that are confirmed and a tail of guesses, of which those that were accepted stay.
#include <algorithm>

#include "mainspring/sample/drafter.h"

namespace mainspring {
namespace {

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(Executor& executor, const SamplerOptions& options)
      : model_(*options.speculation.draft_model),
        max_rows_(options.max_rows),
        chooser_(executor.row_math(), model_.config.vocabulary) {}

  Status init(Executor& executor, const SamplerOptions& options);
  void draft(std::span<const DraftWish> wishes) override;
  void release(SampleState& sample) override;

 private:
  struct Row {
    SampleState* sample;
    int32_t wanted;
    int64_t first;  // position of its first row
    int64_t rows;
    bool is_picked;
  };

  bool prepare(SampleState& sample, int64_t positions);
  void add(SampleState& sample, int32_t wanted, int64_t& room);
  void run();
  void choose();

  ForwardModel model_;
  int64_t max_rows_;
  TokenChooser chooser_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<KvPool> pool_;
  std::vector<Row> rows_;
  std::vector<Segment> segments_;
  std::vector<KvSequence> sequences_;
  std::vector<int32_t> picked_;
};

Status ModelDrafter::init(Executor& executor, const SamplerOptions& options) {
  const ModelConfig& config = model_.config;
  MS_ASSIGN_OR_RETURN(forward_, Forward::create(executor, model_,
                                                {.ending = Forward::Ending::kLogits,
                                                 .capacity = {max_rows_, options.max_batch},
                                                 .rope_positions = options.max_sequence_tokens}));
  MS_ASSIGN_OR_RETURN(
      pool_,
      KvPool::create(executor, {.dtype = model_.compute,
                                .layers = config.layers,
                                .row_elements = kv_row_elements(config.kv_heads, config.head_width),
                                .num_pages = options.cache_pages}));
  return {};
}

void ModelDrafter::release(SampleState& sample) {
  for (const int32_t page : sample.draft_cache.pages) pool_->release(page);
  sample.draft_cache = {};
}

/// Pages for `positions`; false: there are none, and the sample goes on without guesses.
bool ModelDrafter::prepare(SampleState& sample, int64_t positions) {
  std::vector<int32_t>& pages = sample.draft_cache.pages;
  while (static_cast<int64_t>(pages.size()) < pages_of(positions)) {
    const int32_t page = pool_->allocate();
    if (page < 0) return false;
    pages.push_back(page);
  }
  return true;
}

/// Rows of what is not in the cache yet, at most `room`; a row is picked if they are all.
void ModelDrafter::add(SampleState& sample, int32_t wanted, int64_t& room) {
  DraftCache& cache = sample.draft_cache;
  const int64_t end = sample.num_tokens() + std::ssize(sample.draft);
  const int64_t first = std::min(cache.num_cached, end - 1);
  const int64_t rows = std::min(end - first, room);
  if (rows == 0 || !prepare(sample, first + rows)) return;
  for (int64_t i = 0; i < rows; ++i) {
    if (sample.token(first + i) >= model_.config.vocabulary) return;  // it cannot read that
  }
  room -= rows;
  rows_.push_back({&sample, wanted, first, rows, first + rows == end});
}

void ModelDrafter::run() {
  segments_.clear();
  sequences_.clear();
  picked_.clear();
  int32_t next = 0;
  for (const Row& row : rows_) {
    segments_.push_back({.row_begin = next,
                         .num_rows = static_cast<int32_t>(row.rows),
                         .position = static_cast<int32_t>(row.first),
                         .adapter_slot = SampleRequest::kBaseOnly,
                         .cache_sequence = static_cast<int32_t>(sequences_.size())});
    sequences_.push_back({row.sample->draft_cache.pages});
    for (int64_t i = 0; i < row.rows; ++i)
      forward_->tokens()[next + i] = row.sample->token(row.first + i);
    next += static_cast<int32_t>(row.rows);
    if (row.is_picked) picked_.push_back(next - 1);
    row.sample->draft_cache.num_cached = row.first + row.rows;
  }
  KvView view = pool_->view();
  view.sequences = sequences_;
  forward_->run({.num_rows = next, .segments = segments_, .picked = picked_}, &view);
}

/// One more guess for every picked row; the others are done.
void ModelDrafter::choose() {
  const auto vocabulary = static_cast<size_t>(model_.config.vocabulary);
  const float* logits = forward_->result();
  for (Row& row : rows_) {
    if (!row.is_picked) continue;
    SampleState& sample = *row.sample;
    const auto index = std::ssize(sample.result.tokens) + std::ssize(sample.draft);
    // Penalties do not see the guesses: a guess may be wrong.
    const Choice choice = chooser_.choose({logits, vocabulary}, sample.law(), sample.uniform(index),
                                          sample.penalised_history());
    logits += vocabulary;
    row.is_picked = choice.token >= 0;
    if (row.is_picked) sample.draft.push_back(choice.token);
  }
}

void ModelDrafter::draft(std::span<const DraftWish> wishes) {
  for (const DraftWish& wish : wishes) {
    DraftCache& cache = wish.sample->draft_cache;
    // Guesses that became tokens are in the cache; behind the first that did not nothing counts.
    cache.num_cached = std::min(cache.num_cached, cache.num_confirmed);
    for (const int32_t guess : cache.guesses) {
      const int64_t place = cache.num_confirmed;
      if (place >= wish.sample->num_tokens() || wish.sample->token(place) != guess) break;
      cache.num_cached = ++cache.num_confirmed;
    }
    cache.guesses.clear();
  }
  int64_t room = max_rows_;
  rows_.clear();
  for (const DraftWish& wish : wishes) add(*wish.sample, wish.wanted, room);
  std::vector<Row> going;
  while (!rows_.empty()) {
    run();
    choose();
    going = std::move(rows_);
    rows_.clear();
    room = max_rows_;
    for (const Row& row : going) {
      const bool wants_more = std::ssize(row.sample->draft) < row.wanted;
      if (row.is_picked && wants_more) add(*row.sample, row.wanted, room);
    }
  }
  for (const DraftWish& wish : wishes) {
    DraftCache& cache = wish.sample->draft_cache;
    cache.num_confirmed = std::min(cache.num_cached, wish.sample->num_tokens());
    const int64_t cached_guesses = cache.num_cached - cache.num_confirmed;
    cache.guesses.assign(wish.sample->draft.begin(), wish.sample->draft.begin() + cached_guesses);
  }
}

}  // namespace

Result<std::unique_ptr<Drafter>> make_drafter(Executor& executor, const SamplerOptions& options) {
  if (options.speculation.max_draft == 0) return std::unique_ptr<Drafter>();
  if (!options.speculation.draft_model.has_value())
    return make_prompt_lookup(options.speculation.max_ngram);
  auto drafter = std::make_unique<ModelDrafter>(executor, options);
  MS_RETURN_IF_ERROR(drafter->init(executor, options));
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace mainspring

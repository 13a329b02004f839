// What a step computes: which rows of which samples, and running them.
#include <algorithm>

#include "mainspring/sample/batching_sampler.h"

namespace mainspring {

/// Guesses that could become tokens, and for which there is room.
int64_t BatchingSampler::useful_draft(const SampleState& sample) {
  const auto replied = std::ssize(sample.result.tokens);
  if (sample.num_missing() != 1 || replied == 0) return 0;
  // One token comes anyway.
  const int64_t most = std::min({int64_t{sample.params().max_tokens} - replied,
                                 options_.max_sequence_tokens - sample.num_tokens()}) -
                       1;
  // Nobody is preempted for a guess: beyond the sample's own pages only what is free counts.
  const int64_t spare = pool_->num_free() - std::ssize(scheduler_->running());
  const int64_t pages = std::ssize(sample.pages) + std::max<int64_t>(0, spare);
  const int64_t room = pages * kPageTokens - sample.num_tokens();
  const int64_t limit =
      sample.draft_limit > 0 ? sample.draft_limit : options_.speculation.max_draft;
  return std::max<int64_t>(0, std::min({most, room, limit}));
}

/// Guesses for the decoding samples, oldest first.
void BatchingSampler::draft() {
  if (drafter_ == nullptr) return;
  const int64_t start = sampler_clock_ns();
  int64_t left = max_draft_rows_;
  wishes_.clear();
  for (const SamplePtr& sample : scheduler_->running()) {
    sample->draft.clear();
    const int64_t wanted = std::min(left, useful_draft(*sample));
    if (wanted == 0) continue;
    wishes_.push_back({sample.get(), static_cast<int32_t>(wanted)});
    left -= wanted;
  }
  if (!wishes_.empty()) drafter_->draft(wishes_);
  for (const DraftWish& wish : wishes_) {
    // Only tokens of this model's vocabulary can be checked.
    std::vector<int32_t>& guesses = wish.sample->draft;
    const auto beyond = std::find_if(guesses.begin(), guesses.end(), [this](int32_t token) {
      return token >= model_.config.vocabulary;
    });
    guesses.erase(beyond, guesses.end());
  }
  stats_.draft_ns += sampler_clock_ns() - start;
}

/// Every decoding sample gets its row, prefills share what is left of the step, oldest first.
void BatchingSampler::plan() {
  logits_batch_.clear();
  score_batch_.clear();
  int64_t decoding = 0;
  for (const SamplePtr& sample : scheduler_->running())
    decoding += sample->num_missing() == 1 ? 1 + std::ssize(sample->draft) : 0;
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
    rows += std::ssize(sample.draft);
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
  } else if (rows == sample.num_missing() + std::ssize(sample.draft)) {
    const auto checked = static_cast<int32_t>(sample.draft.size());
    for (int32_t row = batch.num_rows - 1 - checked; row < batch.num_rows; ++row) {
      batch.picked.push_back(row);
    }
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
  const float* logits = logits_->result();
  for (SampleState* sample : logits_batch_.pickers) {
    jobs_.push_back({sample, logits, {}});
    if (!sample->request->waiting.empty()) {
      for (SampleState* sibling : scheduler_->fork_waiting(*sample)) {
        jobs_.push_back({sibling, logits, {}});
      }
    }
    logits += (1 + std::ssize(sample->draft)) * model_.config.vocabulary;
  }
}

void BatchingSampler::run(Forward& forward, StepBatch& batch, const RowTable& table) {
  batch.sequences.clear();
  for (const SampleState* sample : batch.samples) batch.sequences.push_back({sample->pages});
  stats_.peak_pages = std::max<int64_t>(stats_.peak_pages, pool_->num_pages() - pool_->num_free());
  KvView view = pool_->view();
  view.sequences = batch.sequences;
  const int64_t start = sampler_clock_ns();
  forward.run(table, &view);
  stats_.run_ns += sampler_clock_ns() - start;
  stats_.rows += batch.num_rows;
}

void BatchingSampler::take_rows(const StepBatch& batch) {
  for (SampleState* sample : batch.samples) {
    // Positions of guesses count when the guesses are accepted.
    sample->num_cached += sample->num_planned - std::ssize(sample->draft);
    scheduler_->publish(*sample);
    scheduler_->drop_behind_window(*sample);
  }
}

}  // namespace mainspring

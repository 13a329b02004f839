// What comes of a step's logits: tokens, events and results.
#include <algorithm>
#include <utility>

#include "mainspring/sample/batching_sampler.h"

namespace mainspring {

void BatchingSampler::choose_all() {
  const int64_t start = sampler_clock_ns();
  while (choosers_.size() < static_cast<size_t>(row_math_.num_threads())) {
    choosers_.emplace_back(row_math_, model_.config.vocabulary);
  }
  // Every row's first token on all threads; what speculation adds to it is seldom many.
  row_math_.each_row(std::ssize(jobs_), [&](int64_t index, int thread) {
    Job& job = jobs_[static_cast<size_t>(index)];
    job.first = choose(choosers_[static_cast<size_t>(thread)], *job.sample, job.logits);
  });
  for (Job& job : jobs_) take_tokens(*job.sample, std::move(job.first), job.logits);
  jobs_.clear();
  stats_.choose_ns += sampler_clock_ns() - start;
}

/// By rule 19.
Chosen BatchingSampler::choose(TokenChooser& chooser, const SampleState& sample,
                               const float* logits) const {
  const std::span row(logits, static_cast<size_t>(model_.config.vocabulary));
  const float uniform = sample.uniform(std::ssize(sample.result.tokens));
  Chosen chosen;
  const AllowedTokens allowed = sample.allowed_tokens();
  chosen.choice = chooser.choose(row, sample.law(), uniform, sample.penalised_history(),
                                 allowed.set != nullptr ? &allowed : nullptr);
  const int32_t alternatives = sample.params().top_logprobs;
  if (alternatives == 0 || chosen.choice.token < 0) return chosen;
  for (const int32_t token : chooser.best(row, alternatives)) {
    chosen.top.push_back({token, row[static_cast<size_t>(token)] - chosen.choice.raw_lse});
  }
  return chosen;
}

/// The next token, and further ones as long as the draft guessed what is chosen: then the rows
/// behind it were computed from the sample's own tokens (rule 21).
void BatchingSampler::take_tokens(SampleState& sample, Chosen chosen, const float* logits) {
  const std::vector<int32_t> guesses = std::exchange(sample.draft, {});
  size_t right = 0;
  while (true) {
    SampleEvent event = event_of(sample);
    event.token = chosen.choice.token;
    const auto reason = sample.append(chosen, options_.max_sequence_tokens, event.text);
    if (event.token >= 0) ++stats_.sampled_tokens;
    const bool is_right = right < guesses.size() && guesses[right] == event.token;
    if (reason.has_value()) {
      right += is_right ? 1 : 0;
      finish(sample, *reason, std::move(event));
      break;
    }
    events_.push_back(std::move(event));
    if (!is_right) break;
    ++right;
    ++sample.num_cached;  // the guess's own row
    scheduler_->publish(sample);
    logits += model_.config.vocabulary;
    chosen = choose(choosers_.front(), sample, logits);
  }
  if (guesses.empty()) return;
  stats_.drafted_tokens += std::ssize(guesses);
  stats_.accepted_tokens += static_cast<int64_t>(right);
  const int32_t most = options_.speculation.max_draft;
  const int32_t limit = sample.draft_limit > 0 ? sample.draft_limit : most;
  if (right == guesses.size()) {
    sample.draft_limit = std::min(most, std::max(limit, 2 * static_cast<int32_t>(right)));
  } else if (right == 0) {
    sample.draft_limit = std::max(1, limit / 2);
  }
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

}  // namespace mainspring

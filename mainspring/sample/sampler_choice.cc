// What comes of a step's logits: tokens, events and results.
#include <utility>

#include "mainspring/sample/batching_sampler.h"

namespace mainspring {

void BatchingSampler::choose_all() {
  const int64_t start = sampler_clock_ns();
  const auto vocabulary = static_cast<size_t>(model_.config.vocabulary);
  while (choosers_.size() < static_cast<size_t>(row_math_.num_threads())) {
    choosers_.emplace_back(row_math_, model_.config.vocabulary);
  }
  row_math_.each_row(static_cast<int64_t>(jobs_.size()), [&](int64_t index, int thread) {
    Job& job = jobs_[static_cast<size_t>(index)];
    TokenChooser& chooser = choosers_[static_cast<size_t>(thread)];
    const std::span logits(job.logits, vocabulary);
    Choice& choice = job.chosen.choice;
    choice = chooser.choose(logits, job.sample->law(), job.sample->uniform(),
                            job.sample->penalised_history());
    const int32_t alternatives = job.sample->params().top_logprobs;
    if (alternatives == 0 || choice.token < 0) return;
    for (const int32_t token : chooser.best(logits, alternatives)) {
      job.chosen.top.push_back({token, logits[static_cast<size_t>(token)] - choice.raw_lse});
    }
  });
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
  stats_.choose_ns += sampler_clock_ns() - start;
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

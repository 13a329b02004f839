// BatchingSampler: the sampler behind Sampler::create. Internal to sample/.
//
// The one idea: requests come in and results go out in batching_sampler.cc, what a step computes is
// planned and run in sampler_rows.cc, and tokens are chosen from its logits in sampler_choice.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "mainspring/sample/drafter.h"
#include "mainspring/sample/sample_state.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/sample/scheduler.h"

namespace mainspring {

/// Some samples' next rows as one activation.
struct StepBatch {
  std::vector<SampleState*> samples;  // one per segment
  std::vector<Segment> segments;
  std::vector<KvSequence> sequences;
  std::vector<int32_t> picked;
  std::vector<SampleState*> pickers;  // whose rows are picked, in order: one and the draft's
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
        row_math_(executor.row_math()) {}

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
  int64_t page_bytes() const;
  int32_t default_pages() const;
  Result<std::shared_ptr<TokenConstraint>> constraint_of(const std::string& schema) const;
  SamplePtr make_sample(const std::shared_ptr<RequestState>& request, int32_t index);

  // What runs.
  void draft();
  int64_t useful_draft(const SampleState& sample);
  void plan();
  void add_rows(StepBatch& batch, SampleState& sample, int64_t rows);
  RowTable fill_tokens(const StepBatch& batch, int32_t* tokens) const;
  void run_scores();
  void run_logits();
  void run(Forward& forward, StepBatch& batch, const RowTable& table);
  void take_rows(const StepBatch& batch);

  // What comes of it.
  void choose_all();
  Chosen choose(TokenChooser& chooser, const SampleState& sample, const float* logits) const;
  void take_tokens(SampleState& sample, Chosen chosen, const float* logits);
  void finish(SampleState& sample, StopReason reason, SampleEvent event);

  uint64_t weights_key(int32_t adapter) const;
  uint64_t adapter_version(int32_t adapter) const;

  Executor& executor_;
  ForwardModel model_;
  SamplerOptions options_;
  const RowMath& row_math_;
  std::vector<TokenChooser> choosers_;  // one per thread, made when first used
  std::unique_ptr<Forward> logits_;
  std::unique_ptr<Forward> scores_;  // made when first asked for
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Drafter> drafter_;  // null: no speculation
  int64_t max_draft_rows_ = 0;        // of one step
  std::vector<DraftWish> wishes_;
  /// By schema; those in use are kept.
  mutable std::map<std::string, std::shared_ptr<TokenConstraint>> constraints_;
  SamplerStats stats_;

  int64_t num_requests_ = 0;
  std::optional<Scheduler> scheduler_;  // made with the pool
  StepBatch logits_batch_;
  StepBatch score_batch_;
  struct Job {
    SampleState* sample;
    const float* logits;  // of its next token, and behind them of those its draft guesses
    Chosen first;
  };
  std::vector<Job> jobs_;
  std::vector<SampleEvent> events_;  // of this step, and of what was cancelled before it
};

/// The steady clock, for SamplerStats.
int64_t sampler_clock_ns();

/// An event of this sample without token and result.
SampleEvent event_of(const SampleState& sample);

}  // namespace mainspring

#include "mainspring/engine/call.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "mainspring/base/check.h"
#include "mainspring/engine/trainable.h"
#include "mainspring/engine/validate.h"
#include "mainspring/obs/timeline.h"

namespace mainspring {
namespace {

// Rows a plan is made for: few sizes, so that batches of other lengths seldom need another plan,
// and no more memory than twice what is used.
int64_t plan_rows(int64_t rows) {
  constexpr int64_t kStep = 256;
  if (rows > kStep) return (rows + kStep - 1) / kStep * kStep;
  return std::max<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))), 32);
}

}  // namespace

Status EngineCall::add(size_t slot, std::span<const Datum> datums) {
  ForwardBackwardResult& result = results_[slot];
  for (size_t i = 0; i < datums.size(); ++i) {
    const Datum& datum = datums[i];
    MS_RETURN_IF_ERROR(
        validate_datum(datum, i, place_.vocabulary, place_.options.max_sequence_tokens, loss_));
    items_.push_back({&datum, static_cast<int32_t>(slot)});
    index_in_result_.push_back(i);
    result.num_tokens += static_cast<int64_t>(datum.tokens.size());
    result.logprobs.emplace_back(datum.tokens.size(), 0.0f);
    for (float weight : datum.weights) result.weight_sum += static_cast<double>(weight);
  }
  return {};
}

Result<std::vector<ForwardBackwardResult>> EngineCall::run() {
  item_loss_.assign(items_.size(), 0.0);
  if (loss_.objective != nullptr) {
    MS_RETURN_IF_ERROR(run_objective());
  } else {
    key_.loss = &loss_;
    MS_RETURN_IF_ERROR(key_.with_gradient ? run_leaves()
                                          : run_micro_batches(key_, 0, items_.size()));
  }
  // In f64 in datum order, so that it does not depend on how rows were batched.
  for (size_t i = 0; i < items_.size(); ++i) result_of(i).loss_sum += item_loss_[i];
  for (ForwardBackwardResult& result : results_) {
    result.finite = result.finite && std::isfinite(result.loss_sum);
  }
  return std::move(results_);
}

Status EngineCall::run_objective() {
  MS_RETURN_IF_ERROR(check_objective());
  Program::Key forward = key_;
  forward.loss = &logprob_loss();
  forward.with_gradient = false;
  MS_RETURN_IF_ERROR(run_micro_batches(forward, 0, items_.size()));
  for (const auto& group : objective_groups(loss_.scope, items_)) {
    MS_RETURN_IF_ERROR(evaluate(group));
  }
  if (!key_.with_gradient) return {};
  key_.loss = &objective_loss();
  return run_leaves();
}

// A micro-batch ends where a datum begins a new gradient leaf of its model.
Status EngineCall::run_leaves() {
  std::vector<Trainable*> models;
  for (const Trainable* model : key_.models) {
    models.push_back(const_cast<Trainable*>(model));
    models.back()->has_gradient = true;  // even if a later datum fails
  }
  size_t first = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    GradientLeaves& leaves = *models[static_cast<size_t>(items_[i].slot)]->leaves;
    if (leaves.is_full()) {
      MS_RETURN_IF_ERROR(run_micro_batches(key_, first, i));
      MS_RETURN_IF_ERROR(leaves.close());
      first = i;
    }
    leaves.count_datum();
  }
  return run_micro_batches(key_, first, items_.size());
}

Status EngineCall::run_micro_batches(const Program::Key& key, size_t first, size_t end) {
  const auto items = std::span<const PackItem>(items_).subspan(first, end - first);
  for (size_t count : split_into_micro_batches(items, place_.options.max_micro_batch_rows)) {
    MS_RETURN_IF_ERROR(run_micro_batch(key, first, count));
    first += count;
  }
  return {};
}

Status EngineCall::run_micro_batch(const Program::Key& key, size_t first, size_t count) {
  Timeline* timeline = place_.executor.timeline();
  const auto items = std::span<const PackItem>(items_).subspan(first, count);
  SpanScope packing(timeline, SpanKind::kHost, "pack batch");
  const Batch batch = pack(items, !key_.with_gradient);
  const std::vector<float> by_logprob =
      key.loss == &objective_loss() ? pick_derivatives(batch, first) : std::vector<float>();
  packing.end();
  const int64_t rows = static_cast<int64_t>(std::max(batch.tokens.size(), batch.picked.size()));
  SpanScope planning(timeline, SpanKind::kHost, "plan");
  MS_ASSIGN_OR_RETURN(Program * program, place_.programs.get(key, plan_rows(rows)));
  planning.end();
  SpanScope running(timeline, SpanKind::kHost, "copy inputs");
  program->run(batch, items, by_logprob);
  running.end();
  const SpanScope reading(timeline, SpanKind::kHost, "read results");
  for (size_t i = 0; i < batch.origins.size(); ++i) {
    const auto& origin = batch.origins[i];
    if (origin.item < 0) continue;
    const size_t item = first + static_cast<size_t>(origin.item);
    logprobs_of(item)[static_cast<size_t>(origin.position)] = program->logprob()[i];
    if (loss_.objective == nullptr) {
      item_loss_[item] += static_cast<double>(program->token_loss()[i]);
    }
  }
  for (ForwardBackwardResult& result : results_) ++result.num_micro_batches;
  return {};
}

// Over zeros: what an objective refuses depends on the datums alone.
Status EngineCall::check_objective() {
  LossMetrics unused;
  for (const auto& group : objective_groups(loss_.scope, items_)) {
    std::vector<const Datum*> datums;
    std::vector<std::span<const float>> logprobs;
    for (size_t item : group) {
      datums.push_back(items_[item].datum);
      logprobs.push_back(logprobs_of(item));
    }
    MS_RETURN_IF_ERROR(evaluate_objective(loss_, settings_, datums, logprobs, unused).status());
  }
  return {};
}

Status EngineCall::evaluate(const std::vector<size_t>& group) {
  std::vector<const Datum*> datums;
  std::vector<std::span<const float>> logprobs;
  for (size_t item : group) {
    datums.push_back(items_[item].datum);
    logprobs.push_back(logprobs_of(item));
  }
  ForwardBackwardResult& result = result_of(group[0]);
  MS_ASSIGN_OR_RETURN(const auto gradients,
                      evaluate_objective(loss_, settings_, datums, logprobs, result.metrics));
  by_logprob_.resize(items_.size());
  for (size_t i = 0; i < group.size(); ++i) {
    item_loss_[group[i]] = gradients[i].loss;
    std::vector<float>& by_logprob = by_logprob_[group[i]];
    by_logprob.clear();
    for (double derivative : gradients[i].by_logprob) {
      by_logprob.push_back(static_cast<float>(derivative));
      result.finite = result.finite && std::isfinite(by_logprob.back());
    }
  }
  return {};
}

std::vector<float> EngineCall::pick_derivatives(const Batch& batch, size_t first) const {
  std::vector<float> picks(batch.origins.size(), 0.0f);
  for (size_t i = 0; i < picks.size(); ++i) {
    const auto& origin = batch.origins[i];
    if (origin.item < 0) continue;
    picks[i] =
        by_logprob_[first + static_cast<size_t>(origin.item)][static_cast<size_t>(origin.position)];
  }
  return picks;
}

}  // namespace mainspring

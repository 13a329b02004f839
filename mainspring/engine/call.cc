#include "mainspring/engine/call.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "mainspring/base/check.h"
#include "mainspring/engine/objective_groups.h"
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

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// In f32 a derivative may overflow where its loss did not.
bool are_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
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
    if (has_values(slot)) result.values.emplace_back(datum.tokens.size(), 0.0f);
    if (loss_.reads_candidates) {
      result.candidate_logprobs.emplace_back(datum.candidates.size(), 0.0f);
      const auto k = static_cast<int64_t>(datum.candidates.size() / datum.tokens.size());
      key_.num_candidates = std::max(key_.num_candidates, k);
    }
    for (float weight : datum.weights) result.weight_sum += static_cast<double>(weight);
  }
  return {};
}

Result<std::vector<ForwardBackwardResult>> EngineCall::run() {
  item_loss_.assign(items_.size(), 0.0);
  begins_leaf_.assign(items_.size(), false);
  if (is_objective()) MS_RETURN_IF_ERROR(check_objective());
  key_.loss = is_objective() ? nullptr : &loss_;
  if (key_.with_gradient) begin_gradients();
  MS_RETURN_IF_ERROR(run_units());
  // In f64 in datum order, so that it does not depend on how rows were batched.
  for (size_t i = 0; i < items_.size(); ++i) result_of(i).loss_sum += item_loss_[i];
  for (size_t i = 0; i < by_logprob_.size(); ++i) {
    result_of(i).finite = result_of(i).finite && are_finite(by_logprob_[i]) &&
                          are_finite(by_value_[i]) && are_finite(by_candidate_[i]);
  }
  for (ForwardBackwardResult& result : results_) {
    result.finite = result.finite && std::isfinite(result.loss_sum);
  }
  return std::move(results_);
}

// Finds where datums begin a new gradient leaf of their model.
void EngineCall::begin_gradients() {
  std::vector<int64_t> left;
  for (const Trainable* model : key_.models) {
    const_cast<Trainable*>(model)->has_gradient = true;  // even if a later datum fails
    left.push_back(model->leaves->datums_left());
  }
  for (size_t i = 0; i < items_.size(); ++i) {
    int64_t& datums_left = left[static_cast<size_t>(items_[i].slot)];
    if (datums_left == 0) {
      begins_leaf_[i] = true;
      datums_left = place_.options.gradient_leaf;
    }
    --datums_left;
  }
}

// Evaluates over zeros: what an objective refuses depends on the datums alone.
Status EngineCall::check_objective() {
  by_logprob_.resize(items_.size());
  by_value_.resize(items_.size());
  by_candidate_.resize(items_.size());
  groups_ = objective_groups(loss_.scope, items_);
  group_end_.resize(items_.size());
  LossMetrics unused;
  for (const auto& group : groups_) {
    for (size_t item : group) group_end_[item] = group.back() + 1;
    MS_RETURN_IF_ERROR(evaluate(group, unused));
  }
  return {};
}

// The shortest run of items from `begin` that no group leaves.
EngineCall::Range EngineCall::unit_at(size_t begin) const {
  Range unit{begin, begin + 1};
  if (!is_objective()) return unit;
  for (size_t i = begin; i < unit.end; ++i) unit.end = std::max(unit.end, group_end_[i]);
  return unit;
}

int64_t EngineCall::rows_of(Range range) const {
  int64_t rows = 0;
  for (size_t i = range.begin; i < range.end; ++i) {
    rows += rows_of_sequence(static_cast<int64_t>(items_[i].datum->tokens.size()));
  }
  return rows;
}

bool EngineCall::leaf_begins_in(Range range) const {
  for (size_t i = range.begin; i < range.end; ++i) {
    if (begins_leaf_[i]) return true;
  }
  return false;
}

// Units share a micro-batch as long as they fit and no gradient leaf begins.
Status EngineCall::run_units() {
  const int64_t most_rows = place_.options.max_micro_batch_rows;
  Range pending{0, 0};
  int64_t pending_rows = 0;
  const auto run_pending = [&]() -> Status {
    const Range range = pending;
    pending = {range.end, range.end};
    pending_rows = 0;
    return range.begin == range.end ? Status() : run_together(range);
  };
  while (pending.end < items_.size()) {
    const Range unit = unit_at(pending.end);
    const int64_t rows = rows_of(unit);
    const bool is_one = unit.end - unit.begin == 1;
    const bool is_cut = !is_one && (rows > most_rows || leaf_begins_in({unit.begin + 1, unit.end}));
    if (is_cut || begins_leaf_[unit.begin] || pending_rows + rows > most_rows) {
      MS_RETURN_IF_ERROR(run_pending());
    }
    if (is_cut) {
      MS_RETURN_IF_ERROR(run_twice(unit));
      pending = {unit.end, unit.end};
      continue;
    }
    pending.end = unit.end;
    pending_rows += rows;
  }
  return run_pending();
}

// One micro-batch that no group leaves.
Status EngineCall::run_together(Range range) {
  if (key_.with_gradient) return run_micro_batch(range, Step::kWhole);
  MS_RETURN_IF_ERROR(run_micro_batch(range, Step::kForward));
  return is_objective() ? evaluate_until(range.end) : Status();
}

// Groups that several micro-batches hold.
Status EngineCall::run_twice(Range range) {
  MS_RETURN_IF_ERROR(run_cut(range, Step::kForward));
  MS_RETURN_IF_ERROR(evaluate_until(range.end));
  return key_.with_gradient ? run_cut(range, Step::kGradient) : Status();
}

Status EngineCall::run_cut(Range range, Step step) {
  Range part{range.begin, range.begin};
  for (; part.end < range.end; ++part.end) {
    const bool is_full = rows_of({part.begin, part.end + 1}) > place_.options.max_micro_batch_rows;
    const bool ends_leaf = step == Step::kGradient && begins_leaf_[part.end];
    if (part.begin == part.end || !(is_full || ends_leaf)) continue;
    MS_RETURN_IF_ERROR(run_micro_batch(part, step));
    part.begin = part.end;
  }
  return run_micro_batch(part, step);
}

Status EngineCall::run_micro_batch(Range range, Step step) {
  Timeline* timeline = place_.executor.timeline();
  const auto items =
      std::span<const PackItem>(items_).subspan(range.begin, range.end - range.begin);
  Program::Key key = key_;
  if (step == Step::kForward) {
    key.with_gradient = false;
  } else {
    MS_RETURN_IF_ERROR(count_in_leaves(range));
  }
  SpanScope packing(timeline, SpanKind::kHost, "pack batch");
  const Batch batch = pack(items, !key_.with_gradient);
  packing.end();
  const int64_t rows = static_cast<int64_t>(std::max(batch.tokens.size(), batch.picked.size()));
  SpanScope planning(timeline, SpanKind::kHost, "plan");
  MS_ASSIGN_OR_RETURN(Program * program, place_.programs.get(key, plan_rows(rows)));
  planning.end();
  Status evaluation;
  const std::function<void()> fill_late_inputs = [&] {
    if (step == Step::kWhole) {
      read_outputs(batch, range.begin, *program);
      evaluation = evaluate_until(range.end);
    }
    write_derivatives(batch, range.begin, *program);
  };
  const bool has_late_inputs = is_objective() && step != Step::kForward;
  SpanScope running(timeline, SpanKind::kHost, "copy inputs");
  program->run(batch, items, has_late_inputs ? &fill_late_inputs : nullptr);
  running.end();
  for (ForwardBackwardResult& result : results_) ++result.num_micro_batches;
  if (has_late_inputs) return evaluation;
  const SpanScope reading(timeline, SpanKind::kHost, "read results");
  read_outputs(batch, range.begin, *program);
  if (is_objective()) return {};
  const float* token_loss = program->token_loss();
  for (size_t i = 0; i < batch.origins.size(); ++i) {
    if (batch.origins[i].item < 0) continue;
    item_loss_[range.begin + static_cast<size_t>(batch.origins[i].item)] +=
        static_cast<double>(token_loss[i]);
  }
  return {};
}

// A leaf begins with the first item of a micro-batch or with none.
Status EngineCall::count_in_leaves(Range range) {
  for (size_t i = range.begin; i < range.end; ++i) {
    const Trainable* model = key_.models[static_cast<size_t>(items_[i].slot)];
    if (begins_leaf_[i]) MS_RETURN_IF_ERROR(model->leaves->close());
    model->leaves->count_datum();
  }
  return {};
}

void EngineCall::read_outputs(const Batch& batch, size_t first, const Program& program) {
  const float* logprob = program.logprob();
  std::vector<const float*> values;  // per slot
  for (size_t slot = 0; slot < key_.models.size(); ++slot) values.push_back(program.values(slot));
  for (size_t i = 0; i < batch.origins.size(); ++i) {
    const auto& origin = batch.origins[i];
    if (origin.item < 0) continue;
    const size_t item = first + static_cast<size_t>(origin.item);
    const auto position = static_cast<size_t>(origin.position);
    logprobs_of(item)[position] = logprob[i * program.stride()];
    if (loss_.reads_candidates) {
      const Datum& datum = *items_[item].datum;
      const size_t k = datum.candidates.size() / datum.tokens.size();
      for (size_t j = 0; j < k; ++j) {
        if (datum.candidates[position * k + j] < 0) continue;
        candidates_of(item)[position * k + j] = logprob[i * program.stride() + 1 + j];
      }
    }
    const float* value = values[static_cast<size_t>(items_[item].slot)];
    if (value != nullptr) values_of(item)[position] = value[i];
  }
}

// By the target and by its candidates. A candidate that is the target takes both: the head wants
// derivatives of distinct tokens.
std::vector<float> EngineCall::logprob_derivatives(const Batch& batch, size_t first,
                                                   size_t stride) const {
  std::vector<float> picks(batch.origins.size() * stride, 0.0f);
  for (size_t i = 0; i < batch.origins.size(); ++i) {
    const auto& origin = batch.origins[i];
    if (origin.item < 0) continue;
    const size_t item = first + static_cast<size_t>(origin.item);
    const auto position = static_cast<size_t>(origin.position);
    const Datum& datum = *items_[item].datum;
    const size_t k = datum.candidates.size() / datum.tokens.size();
    float* pick = picks.data() + i * stride;
    pick[0] = by_logprob_[item][position];
    for (size_t j = 0; j < k; ++j) {
      const int32_t candidate = datum.candidates[position * k + j];
      if (candidate < 0) continue;
      pick[1 + j] = by_candidate_[item][position * k + j];
      if (candidate != datum.targets[position]) continue;
      pick[1 + j] += pick[0];
      pick[0] = 0.0f;
    }
  }
  return picks;
}

void EngineCall::write_derivatives(const Batch& batch, size_t first, Program& program) const {
  // `slot` -1: of every item.
  const auto picks_of = [&](const std::vector<std::vector<float>>& derivatives, int32_t slot) {
    std::vector<float> picks(batch.origins.size(), 0.0f);
    for (size_t i = 0; i < picks.size(); ++i) {
      const auto& origin = batch.origins[i];
      if (origin.item < 0) continue;
      const size_t item = first + static_cast<size_t>(origin.item);
      if (slot >= 0 && items_[item].slot != slot) continue;
      picks[i] = derivatives[item][static_cast<size_t>(origin.position)];
    }
    return picks;
  };
  program.write_by_logprob(loss_.reads_candidates
                               ? logprob_derivatives(batch, first, program.stride())
                               : picks_of(by_logprob_, -1));
  for (size_t slot = 0; slot < key_.models.size(); ++slot) {
    if (!has_values(slot)) continue;
    program.write_by_value(slot, picks_of(by_value_, static_cast<int32_t>(slot)));
  }
}

Status EngineCall::evaluate_until(size_t end) {
  for (; next_group_ < groups_.size() && groups_[next_group_][0] < end; ++next_group_) {
    const std::vector<size_t>& group = groups_[next_group_];
    MS_RETURN_IF_ERROR(evaluate(group, result_of(group[0]).metrics));
  }
  return {};
}

Status EngineCall::evaluate(const std::vector<size_t>& group, LossMetrics& metrics) {
  std::vector<ObjectiveItem> items;
  for (size_t item : group) {
    items.push_back({.datum = items_[item].datum,
                     .logprobs = logprobs_of(item),
                     .values = {},
                     .candidate_logprobs = {}});
    if (has_values(static_cast<size_t>(items_[item].slot))) items.back().values = values_of(item);
    if (loss_.reads_candidates) items.back().candidate_logprobs = candidates_of(item);
  }
  MS_ASSIGN_OR_RETURN(const auto gradients,
                      evaluate_objective(loss_, settings_, std::move(items), metrics));
  for (size_t i = 0; i < group.size(); ++i) keep_gradient(group[i], gradients[i]);
  return {};
}

void EngineCall::keep_gradient(size_t item, const ObjectiveGradient& gradient) {
  item_loss_[item] = gradient.loss;
  by_logprob_[item] = rounded(gradient.by_logprob);
  by_value_[item] = rounded(gradient.by_value);
  by_candidate_[item] = rounded(gradient.by_candidate);
}

}  // namespace mainspring

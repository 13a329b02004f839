// One step: batch, pass, update, and what is written down about it.
#include <chrono>
#include <filesystem>
#include <limits>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/train/training_run.h"

namespace mainspring {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The loss without its other terms.
double cross_entropy_of(const std::vector<Datum>& datums, const ForwardBackwardResult& result) {
  double sum = 0;
  for (size_t i = 0; i < datums.size(); ++i) {
    for (size_t t = 0; t < datums[i].weights.size(); ++t) {
      sum -= static_cast<double>(datums[i].weights[t]) * static_cast<double>(result.logprobs[i][t]);
    }
  }
  return sum;
}

}  // namespace

// What the loss reads beside tokens and weights.
Status TrainingRun::prepare(std::vector<Datum>& datums) {
  if (recipe_.kind == "preference") {
    const std::string& loss = recipe_.preference.loss;
    if (loss == "kto") MS_RETURN_IF_ERROR(add_mismatched(datums));
    return needs_reference(loss) ? reference_.add(*setup_.engine, datums) : Status();
  }
  if (recipe_.train.z_loss == 0) return {};
  // The loss's second term: z_loss times each token's weight.
  const auto factor = static_cast<float>(recipe_.train.z_loss);
  for (Datum& datum : datums) {
    std::vector<float>& z = datum.inputs["z_weights"];
    for (float weight : datum.weights) z.push_back(factor * weight);
  }
  return {};
}

LossCall TrainingRun::loss_call() const {
  if (recipe_.kind == "preference") {
    return LossCall(recipe_.preference.loss, recipe_.preference.settings);
  }
  return recipe_.train.z_loss > 0 ? "cross_entropy_z" : "cross_entropy";
}

double TrainingRun::normaliser(const std::vector<Datum>& datums,
                               const ForwardBackwardResult& result) const {
  if (recipe_.kind != "preference") return result.weight_sum;
  return num_judged(recipe_.preference.loss, datums);
}

Result<OptimStepResult> TrainingRun::apply(double normaliser, double rate_factor) {
  const double rate = static_cast<double>(learning_rate(recipe_, setup_.schedule, step_));
  return setup_.engine->optim_step(
      setup_.id, {.lr = static_cast<float>(rate * rate_factor),
                  .beta1 = static_cast<float>(recipe_.optim.beta1),
                  .beta2 = static_cast<float>(recipe_.optim.beta2),
                  .eps = static_cast<float>(recipe_.optim.eps),
                  .weight_decay = static_cast<float>(recipe_.optim.weight_decay),
                  .max_grad_norm = static_cast<float>(recipe_.train.max_grad_norm),
                  .normaliser = normaliser});
}

Status TrainingRun::step() {
  Timeline* timeline = executor_.timeline();
  const SpanScope step_span(timeline, SpanKind::kGroup, "step");
  const auto start = Clock::now();
  SpanScope data_span(timeline, SpanKind::kHost, "data");
  StepWork work;
  MS_ASSIGN_OR_RETURN(DrawnBatch batch, batches_->next(step_));
  if (batch.follows_left_out) expected_loss_.reset();  // it was that of the batch left out
  batch_ = std::move(batch.origin);
  work.datums = std::move(batch.datums);
  double rate_factor = 1.0;
  if (options_.before_step) options_.before_step(work.datums, rate_factor);
  MS_RETURN_IF_ERROR(prepare(work.datums));
  data_span.end();
  work.data_s = seconds_since(start);
  MS_RETURN_IF_ERROR(pass(work));
  work.is_spike = guard_.is_spike(work.loss());
  if (work.is_spike && recipe_.train.spikes == "rollback") {
    MS_ASSIGN_OR_RETURN(const bool spoiled, previous_step_spoiled());
    if (spoiled) {
      setup_.engine->zero_grad(setup_.id);
      return roll_back();
    }
  }
  MS_RETURN_IF_ERROR(update(work, rate_factor));
  ++step_;
  if (folder_ == nullptr) return note_profiled(work);
  record_step(work);
  MS_RETURN_IF_ERROR(judge(work));
  if (is_due(recipe_.train.eval_every)) MS_RETURN_IF_ERROR(evaluate());
  if (is_due(recipe_.checkpoint.every)) MS_RETURN_IF_ERROR(save());
  return {};
}

Status TrainingRun::pass(StepWork& work) {
  const auto start = Clock::now();
  SpanScope span(executor_.timeline(), SpanKind::kGroup, "forward_backward");
  MS_ASSIGN_OR_RETURN(work.result,
                      setup_.engine->forward_backward(setup_.id, work.datums, loss_call()));
  work.normaliser = normaliser(work.datums, work.result);
  span.end();
  work.pass_s = seconds_since(start);
  const double got = work.result.loss_sum;
  if (expected_loss_.has_value() && *expected_loss_ != got) {
    return data_loss("resumed at step " + std::to_string(step_) + ": the next loss is " +
                     std::to_string(got) + " but was " + std::to_string(*expected_loss_) +
                     " before: the data, the program or the machine has changed");
  }
  expected_loss_.reset();
  return {};
}

Status TrainingRun::update(StepWork& work, double rate_factor) {
  if (save_awaits_loss_) {
    writer_->note_next_loss(work.result.loss_sum);
    save_awaits_loss_ = false;
  }
  const auto start = Clock::now();
  if (writer_ != nullptr) {
    writer_->wait_before_mutation();
    MS_RETURN_IF_ERROR(report_saves());
  }
  const SpanScope span(executor_.timeline(), SpanKind::kHost, "optimizer outside kernels");
  work.update = {.grad_norm = std::numeric_limits<double>::quiet_NaN(), .applied = false};
  if (work.result.finite && !work.is_spike) {
    MS_ASSIGN_OR_RETURN(work.update, apply(work.normaliser, rate_factor));
  } else {
    setup_.engine->zero_grad(setup_.id);
  }
  work.update_s = seconds_since(start);
  if (work.update.applied) return {};
  work.not_applied = !work.result.finite ? "the loss is not finite"
                     : work.is_spike     ? StepMetrics::kSpike
                                         : "the gradient is not finite";
  return {};
}

// What the step's outcome means for the run.
Status TrainingRun::judge(StepWork& work) {
  if (work.is_spike && work.result.finite) {
    return note_spike("step " + std::to_string(step_) + " not applied: its loss " +
                      std::to_string(work.loss()) + " is a spike, usual is below " +
                      std::to_string(guard_.limit()));
  }
  if (!work.update.applied) return after_bad_step(work);
  bad_in_a_row_ = 0;
  guard_.note(work.loss());
  if (recipe_.train.spikes == "rollback") previous_ = std::move(work.datums);
  previous_batch_ = batch_;
  return {};
}

// The batch is kept as token rows, so that it can be looked at and run again.
Status TrainingRun::after_bad_step(const StepWork& work) {
  ++bad_in_a_row_;
  std::string lines;
  for (const Datum& datum : work.datums) {
    Json row;
    row["sample_index"] = datum.sample_index;
    row["epoch"] = datum.epoch;
    row["tokens"] = datum.tokens;
    row["targets"] = datum.targets;
    row["weights"] = datum.weights;
    if (datum.role != 0) row["role"] = datum.role;
    lines += row.dump() + "\n";
  }
  const std::string path = folder_->dir() + "/bad_batches/step-" + std::to_string(step_) + ".jsonl";
  std::filesystem::create_directories(folder_->dir() + "/bad_batches");
  MS_RETURN_IF_ERROR(write_file_atomically(path, lines));
  const std::string message = "step " + std::to_string(step_) +
                              " not applied: " + work.not_applied + "; batch kept in " + path;
  progress_->message(message);
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "warning", .step = step_, .message = message, .fields = {}}));
  if (bad_in_a_row_ < recipe_.train.max_bad_steps) return {};
  return failed_precondition(std::to_string(bad_in_a_row_) +
                             " steps in a row were not applied (last cause: " + work.not_applied +
                             "); lower optim.lr or look at " + path);
}

void TrainingRun::record_step(const StepWork& work) {
  const ForwardBackwardResult& result = work.result;
  const double total_s = work.data_s + work.pass_s + work.update_s;
  std::map<std::string, double> more{
      {"micro_batches", static_cast<double>(result.num_micro_batches)},
      {"sequences", static_cast<double>(work.datums.size())}};
  double loss = work.loss();
  if (recipe_.train.z_loss > 0) {  // shown apart, so that losses of runs compare
    const double whole = loss;
    loss = cross_entropy_of(work.datums, result) / result.weight_sum;
    more["z_loss"] = whole - loss;
  }
  for (const auto& [name, metric] : result.metrics) more[name] = metric.mean();
  if (recipe_.kind == "preference") more["judged"] = work.normaliser;
  StepMetrics metrics{.step = step_,
                      .loss = loss,
                      .loss_sum = result.loss_sum,
                      .token_count = result.weight_sum,
                      .lr = static_cast<double>(learning_rate(recipe_, setup_.schedule, step_ - 1)),
                      .grad_norm = work.update.grad_norm,
                      .tokens_per_s = static_cast<double>(result.num_tokens) / total_s,
                      .mfu = mfu(flops_.of_step(work.datums), total_s, flops_.peak),
                      .mfu_peak_flops = flops_.peak,
                      .mfu_formula = flops_.formula,
                      .seconds = {{"data", work.data_s},
                                  {"forward_backward", work.pass_s},
                                  {"optim_step", work.update_s}},
                      .peak_bytes = setup_.engine->peak_bytes(),
                      .applied = work.update.applied,
                      .not_applied = work.not_applied,
                      .more = std::move(more)};
  progress_->step(metrics);
  if (const Status status = folder_->append_metrics(metrics); !status.ok()) {
    progress_->message("metrics not written: " + status.to_string());
  }
}

}  // namespace mainspring

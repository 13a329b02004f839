#include "mainspring/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <sstream>

#include "mainspring/ckpt/writer.h"
#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/answers.h"
#include "mainspring/train/checkpointing.h"
#include "mainspring/train/resume_check.h"
#include "mainspring/train/setup.h"
#include "mainspring/train/spike_guard.h"
#include "mainspring/weights/digest.h"

namespace mainspring {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;  // "Clang 19.1.7 ..."
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a source has; what was used of it is known only later.
std::string source_text(const SourceReport& report) {
  std::string text = report.name + ": " + format_counted(report.num_rows, "row");
  if (report.num_held_out > 0) text += " (" + std::to_string(report.num_held_out) + " held out)";
  return text;
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

// Samples [begin, end) of the stream.
struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

constexpr const char* kLeftOut = "left_out";
constexpr const char* kSpikeLosses = "spike_losses";
constexpr const char* kNumSpikes = "num_spikes";
constexpr const char* kPrevious = "previous_batch";

// A batch that was applied: where the stream stood before it, and how many steps were done.
struct AppliedBatch {
  DataState data;
  SampleRange samples;
  int64_t step = 0;
};

std::string batch_text(const AppliedBatch& batch) {
  std::string text = std::to_string(batch.step) + " " + std::to_string(batch.samples.begin) + " " +
                     std::to_string(batch.samples.end) + " " +
                     std::to_string(batch.data.next_sample);
  for (int64_t cursor : batch.data.cursors) text += " " + std::to_string(cursor);
  return text;
}

// `data`: of the same stream, for its digest.
AppliedBatch parse_batch(const std::string& text, const DataState& data) {
  std::istringstream in(text);
  AppliedBatch batch;
  in >> batch.step >> batch.samples.begin >> batch.samples.end >> batch.data.next_sample;
  for (int64_t cursor = 0; in >> cursor;) batch.data.cursors.push_back(cursor);
  batch.data.data_digest = data.data_digest;
  return batch;
}

std::string ranges_text(const std::vector<SampleRange>& ranges) {
  std::string text;
  for (const SampleRange& range : ranges) {
    text += std::to_string(range.begin) + " " + std::to_string(range.end) + " ";
  }
  return text;
}

std::vector<SampleRange> parse_ranges(const std::string& text) {
  std::istringstream in(text);
  std::vector<SampleRange> ranges;
  for (SampleRange range; in >> range.begin >> range.end;) ranges.push_back(range);
  return ranges;
}

// One run: what is set up once, and the loop over steps.
class Run {
 public:
  Run(const Recipe& recipe, Executor& executor, const TrainOptions& options)
      : recipe_(recipe),
        executor_(executor),
        options_(options),
        guard_(recipe.train.spikes == "ignore" ? 0.0 : recipe.train.spike_factor,
               recipe.train.spike_window) {}

  Result<TrainResult> go();
  Result<ProfiledRun> profile(const ProfileOptions& options);

 private:
  Status open();
  Status compare_recipe();
  Status resume();
  Status restore(const Checkpoint& checkpoint);
  Status restore_guard(const std::map<std::string, std::string>& extra);
  Status write_info();
  std::string plan_text() const;
  TrainedPart trained_part() const {
    return {recipe_.tune.mode == "full", recipe_.tune.rank, recipe_.tune.targets};
  }
  Result<std::vector<Datum>> next_batch();
  Result<std::vector<Datum>> draw_batch();
  void add_z_weights(std::vector<Datum>& datums) const;
  std::string_view loss_name() const {
    return recipe_.train.z_loss > 0 ? "cross_entropy_z" : "cross_entropy";
  }
  Status step();
  Result<OptimStepResult> apply(const ForwardBackwardResult& result, double rate_factor);
  Result<bool> previous_step_spoiled();
  Status roll_back();
  Status note_spike(const std::string& what);
  Status note_profiled(const std::vector<Datum>& datums, const ForwardBackwardResult& result,
                       bool applied);
  Status after_bad_step(const std::vector<Datum>& datums, const std::string& cause);
  void record_step(const std::vector<Datum>& datums, const ForwardBackwardResult& result,
                   const OptimStepResult& update, const std::string& not_applied, double data_s,
                   double pass_s, double update_s);
  Status evaluate();
  Status save();
  Status report_saves();
  Status finish(const std::string& state);
  void say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }
  bool should_stop() const { return options_.should_stop && options_.should_stop(); }
  bool is_due(int64_t every) const {
    return step_ == recipe_.train.steps || (every > 0 && step_ % every == 0);
  }

  const Recipe& recipe_;
  Executor& executor_;
  const TrainOptions& options_;
  TrainSetup setup_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<Progress> progress_;
  FlopsModel flops_;
  int64_t step_ = 0;                   // steps done
  std::vector<RecipeChange> changes_;  // since the run was last started
  int64_t saved_step_ = -1;
  int64_t bad_in_a_row_ = 0;
  bool save_awaits_loss_ = false;
  SpikeGuard guard_;
  AppliedBatch batch_;           // this step's
  AppliedBatch previous_batch_;  // the last applied one, for the guard
  std::vector<Datum> previous_;  // its datums; empty: none was applied
  std::vector<SampleRange> left_out_;
  int64_t num_spikes_ = 0;
  std::optional<double> expected_loss_;  // of the first step after a resume
  std::optional<double> last_eval_;
  TrainResult result_;
  ProfiledRun profiled_;
};

Result<TrainResult> Run::go() {
  MS_RETURN_IF_ERROR(open());
  if (options_.dry_run) {
    say(plan_text());
    return result_;
  }
  if (step_ == 0) MS_RETURN_IF_ERROR(evaluate());
  // Where a run can go back to from its first steps.
  if (recipe_.train.spikes == "rollback" && saved_step_ < 0) MS_RETURN_IF_ERROR(save());
  while (step_ < recipe_.train.steps && !should_stop()) {
    const Status status = step();
    if (!status.ok()) {
      if (const Status s = finish("failed"); !s.ok()) say(s.to_string());
      return status;
    }
  }
  result_.stopped = step_ < recipe_.train.steps;
  if (saved_step_ != step_ && step_ > 0) MS_RETURN_IF_ERROR(save());
  MS_RETURN_IF_ERROR(finish(result_.stopped ? "stopped" : "finished"));
  result_.steps_done = step_;
  return result_;
}

Result<ProfiledRun> Run::profile(const ProfileOptions& options) {
  MS_ASSIGN_OR_RETURN(setup_, set_up(recipe_, executor_));
  MS_ASSIGN_OR_RETURN(profiled_.flops,
                      FlopsModel::of(setup_.model->config, trained_part(), executor_));
  profiled_.description = plan_text();
  for (int64_t i = 0; i < options.warmup_steps; ++i) MS_RETURN_IF_ERROR(step());
  const ProfiledRun fresh{.description = profiled_.description, .flops = profiled_.flops};
  profiled_ = fresh;
  executor_.set_timeline(options.timeline);
  const std::clock_t cpu_start = std::clock();
  Status status;
  {
    const SpanScope all(options.timeline, SpanKind::kGroup, "profile");
    for (int64_t i = 0; i < options.steps && status.ok(); ++i) status = step();
  }
  executor_.set_timeline(nullptr);
  profiled_.cpu_s = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  MS_RETURN_IF_ERROR(status);
  MS_ASSIGN_OR_RETURN(const Engine::State state, setup_.engine->state(setup_.id));
  profiled_.digest = digest_of(state.tensors).hex();
  return profiled_;
}

// A step that is not applied takes another time than one that is.
Status Run::note_profiled(const std::vector<Datum>& datums, const ForwardBackwardResult& result,
                          bool applied) {
  if (!applied) {
    return failed_precondition("step " + std::to_string(step_) +
                               ": the loss or the gradient is not finite, so there is no update to "
                               "time; lower optim.lr");
  }
  profiled_.num_tokens += result.num_tokens;
  profiled_.num_micro_batches += result.num_micro_batches;
  profiled_.model_flops += profiled_.flops.of_step(datums);
  profiled_.loss_sums.push_back(result.loss_sum);
  for (const Datum& datum : datums) {
    profiled_.num_learned += std::count_if(datum.weights.begin(), datum.weights.end(),
                                           [](float weight) { return weight != 0.0f; });
  }
  return {};
}

// Everything that can refuse does so here, before the folder is touched.
Status Run::open() {
  MS_RETURN_IF_ERROR(check_run_folder(options_.run_dir, options_.resume));
  if (options_.resume) MS_RETURN_IF_ERROR(compare_recipe());
  MS_ASSIGN_OR_RETURN(setup_, set_up(recipe_, executor_));
  result_.first_eval_loss = result_.last_eval_loss = std::numeric_limits<double>::quiet_NaN();
  MS_ASSIGN_OR_RETURN(flops_, FlopsModel::of(setup_.model->config, trained_part(), executor_));
  if (options_.dry_run) return {};
  MS_ASSIGN_OR_RETURN(folder_,
                      RunFolder::open({.dir = options_.run_dir, .resume = options_.resume}));
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriterOptions{.checkpoints_dir = folder_->checkpoints_dir(),
                              .keep_last = recipe_.checkpoint.keep_last,
                              .keep_best = recipe_.checkpoint.keep_best});
  if (options_.resume) MS_RETURN_IF_ERROR(resume());
  MS_RETURN_IF_ERROR(write_info());
  say(plan_text());
  for (const SourceReport& report : setup_.data->report()) say(source_text(report));
  progress_ = std::make_unique<Progress>(
      ProgressOptions{.total_steps = recipe_.train.steps, .first_step = step_});
  std::string message = "started";
  if (options_.resume) {
    message = "resumed at step " + std::to_string(step_);
    if (!changes_.empty()) message += " with " + changes_text(changes_);
    say(message);
  }
  return folder_->append_event({.kind = options_.resume ? "resume" : "start",
                                .step = step_,
                                .message = message,
                                .fields = {}});
}

// Without a checkpoint nothing was trained that another recipe could spoil.
Status Run::compare_recipe() {
  MS_ASSIGN_OR_RETURN(const auto was, read_run_recipe(options_.run_dir));
  changes_ = changes_between(was, recipe_.values);
  if (list_checkpoints(join_path(options_.run_dir, "checkpoints")).empty()) return {};
  return check_changes(changes_).with_context(options_.run_dir);
}

Status Run::resume() {
  MS_ASSIGN_OR_RETURN(const NewestCheckpoint newest,
                      load_newest_checkpoint(folder_->checkpoints_dir()));
  for (const std::string& rejected : newest.rejected) {
    say("checkpoint not used: " + rejected);
    MS_RETURN_IF_ERROR(folder_->append_event({.kind = "warning",
                                              .step = 0,
                                              .message = "checkpoint not used: " + rejected,
                                              .fields = {}}));
  }
  if (!newest.checkpoint.has_value()) {
    say("no checkpoint yet: starting at step 0");
    return folder_->truncate_after_step(0);
  }
  const Checkpoint& checkpoint = *newest.checkpoint;
  if (checkpoint.state.seed != recipe_.seed) {
    return failed_precondition(checkpoint.path + ": was made with seed " +
                               std::to_string(checkpoint.state.seed) + ", the recipe says " +
                               std::to_string(recipe_.seed));
  }
  if (checkpoint.state.step > recipe_.train.steps) {
    const std::string done = std::to_string(checkpoint.state.step);
    return failed_precondition(options_.run_dir + ": has done " + done + " steps, train.steps is " +
                               std::to_string(recipe_.train.steps) + ": to go on, set it above " +
                               done);
  }
  MS_RETURN_IF_ERROR(restore(checkpoint));
  say("resuming from " + checkpoint.path);
  MS_RETURN_IF_ERROR(folder_->truncate_after_step(step_));
  if (const std::optional<EvalMetrics> first = folder_->first_eval(); first.has_value()) {
    result_.first_eval_loss = first->loss;
    result_.last_eval_loss = last_eval_.value_or(first->loss);
    result_.num_evals = 1;
  }
  return {};
}

Status Run::restore(const Checkpoint& checkpoint) {
  MS_RETURN_IF_ERROR(restore_engine(*setup_.engine, setup_.id, checkpoint));
  if (const Status data = setup_.data->restore(checkpoint.state.data); !data.ok()) {
    for (const RecipeChange& change : changes_) {
      if (change.key != "data.files") continue;
      return failed_precondition(options_.run_dir + ": the run was made with data.files " +
                                 change.was + ", the recipe says " + change.now +
                                 ", which hold other rows");
    }
    return data.with_context(options_.run_dir);
  }
  step_ = checkpoint.state.step;
  saved_step_ = step_;
  expected_loss_ = checkpoint.next_loss_sum;
  last_eval_ = checkpoint.state.eval_loss;
  return restore_guard(checkpoint.state.extra);
}

Status Run::restore_guard(const std::map<std::string, std::string>& extra) {
  const auto value = [&](const char* key) {
    const auto found = extra.find(key);
    return found == extra.end() ? std::string() : found->second;
  };
  // A rollback keeps what it has learnt since the checkpoint.
  for (const SampleRange& range : parse_ranges(value(kLeftOut))) {
    const auto same = [&](const SampleRange& other) { return other.begin == range.begin; };
    if (std::none_of(left_out_.begin(), left_out_.end(), same)) left_out_.push_back(range);
  }
  const std::string count = value(kNumSpikes);
  if (!count.empty()) num_spikes_ = std::max<int64_t>(num_spikes_, std::stoll(count));
  MS_RETURN_IF_ERROR(guard_.restore(value(kSpikeLosses)));
  previous_.clear();
  if (recipe_.train.spikes != "rollback" || value(kPrevious).empty()) return {};
  // The batch before the checkpoint is drawn again.
  const DataState now = setup_.data->state();
  previous_batch_ = parse_batch(value(kPrevious), now);
  MS_RETURN_IF_ERROR(setup_.data->restore(previous_batch_.data));
  MS_ASSIGN_OR_RETURN(previous_, draw_batch());
  add_z_weights(previous_);
  return setup_.data->restore(now);
}

Status Run::write_info() {
  RunInfo info{.title = recipe_.title,
               .recipe = recipe_.values,
               .versions = {{"mainspring", "0.1.0"}, {"compiler", kCompiler}},
               .seeds = {{"seed", recipe_.seed}},
               .facts = options_.facts,
               .total_steps = recipe_.train.steps};
  info.facts["model"] = setup_.model->path;
  info.facts["executor"] = std::string(executor_.name());
  info.facts["threads"] = std::to_string(executor_.num_threads());
  info.facts["parameters"] = std::to_string(setup_.model->num_parameters);
  return folder_->write_info(info);
}

std::string Run::plan_text() const {
  const ModelConfig& config = setup_.model->config;
  const auto held_out = static_cast<int64_t>(setup_.eval_rows.size());
  return setup_.model->path + ": " + config.family + ", " +
         format_count(static_cast<double>(setup_.model->num_parameters)) + " parameters; " +
         recipe_.tune.mode + ", " + recipe_.model.dtype + ", " + std::string(executor_.name()) +
         ", " + format_counted(executor_.num_threads(), "thread") + "; " +
         format_counted(setup_.data->num_rows(), "row") + ", " + std::to_string(held_out) +
         " held out; " + format_counted(recipe_.train.steps, "step") + " of " +
         format_counted(recipe_.train.batch_size, "sequence") + " in micro-batches of at most " +
         format_counted(setup_.engine->options().max_micro_batch_rows, "row");
}

// The next batch that no rollback has left out.
Result<std::vector<Datum>> Run::next_batch() {
  while (true) {
    batch_.step = step_;
    batch_.data = setup_.data->state();
    batch_.samples.begin = batch_.data.next_sample;
    MS_ASSIGN_OR_RETURN(std::vector<Datum> datums, draw_batch());
    batch_.samples.end = setup_.data->state().next_sample;
    const auto is_it = [&](const SampleRange& range) {
      return range.begin == batch_.samples.begin;
    };
    if (std::none_of(left_out_.begin(), left_out_.end(), is_it)) return datums;
    expected_loss_.reset();  // it was that of the batch left out
  }
}

Result<std::vector<Datum>> Run::draw_batch() {
  if (recipe_.train.batch_tokens == 0) return setup_.data->next(recipe_.train.batch_size);
  std::vector<Datum> datums;
  int64_t tokens = 0;
  while (tokens < recipe_.train.batch_tokens) {
    MS_ASSIGN_OR_RETURN(std::vector<Datum> one, setup_.data->next(1));
    for (Datum& datum : one) {
      tokens += static_cast<int64_t>(datum.tokens.size());
      datums.push_back(std::move(datum));
    }
  }
  return datums;
}

// The loss's second term: z_loss times each token's weight.
void Run::add_z_weights(std::vector<Datum>& datums) const {
  if (recipe_.train.z_loss == 0) return;
  const auto factor = static_cast<float>(recipe_.train.z_loss);
  for (Datum& datum : datums) {
    std::vector<float>& z = datum.inputs["z_weights"];
    for (float weight : datum.weights) z.push_back(factor * weight);
  }
}

Result<OptimStepResult> Run::apply(const ForwardBackwardResult& result, double rate_factor) {
  const double rate = static_cast<double>(learning_rate(recipe_, setup_.schedule, step_));
  return setup_.engine->optim_step(
      setup_.id, {.lr = static_cast<float>(rate * rate_factor),
                  .beta1 = static_cast<float>(recipe_.optim.beta1),
                  .beta2 = static_cast<float>(recipe_.optim.beta2),
                  .eps = static_cast<float>(recipe_.optim.eps),
                  .weight_decay = static_cast<float>(recipe_.optim.weight_decay),
                  .max_grad_norm = static_cast<float>(recipe_.train.max_grad_norm),
                  .normaliser = result.weight_sum});
}

// True if the batch before this one, usual when it was applied, is a spike now.
Result<bool> Run::previous_step_spoiled() {
  if (previous_.empty()) return false;
  MS_ASSIGN_OR_RETURN(const ForwardBackwardResult again,
                      setup_.engine->forward(setup_.id, previous_, loss_name()));
  return guard_.is_spike(again.loss_sum / again.weight_sum);
}

// Back to the newest whole checkpoint that the previous step has not touched; its batch is left out
// when its turn comes again. Later checkpoints are removed: a resume must not find them.
Status Run::roll_back() {
  left_out_.push_back(previous_batch_.samples);
  MS_RETURN_IF_ERROR(writer_->wait());
  MS_RETURN_IF_ERROR(report_saves());
  auto entries = list_checkpoints(folder_->checkpoints_dir());
  while (!entries.empty() && entries.back().step > previous_batch_.step) {
    MS_RETURN_IF_ERROR(remove_tree(entries.back().path));
    entries.pop_back();
  }
  for (; !entries.empty(); entries.pop_back()) {
    const auto checkpoint = load_checkpoint(entries.back().path);
    if (!checkpoint.ok()) continue;
    const int64_t from = step_;
    MS_RETURN_IF_ERROR(restore(*checkpoint));
    save_awaits_loss_ = false;
    MS_RETURN_IF_ERROR(folder_->truncate_after_step(step_));
    return note_spike("step " + std::to_string(from) + " spoiled the weights: back to step " +
                      std::to_string(step_) + ", its batch (samples " +
                      std::to_string(left_out_.back().begin) + " to " +
                      std::to_string(left_out_.back().end - 1) + ") is left out");
  }
  return failed_precondition("a loss spike at step " + std::to_string(step_) +
                             ", and no checkpoint before it to go back to");
}

Status Run::note_spike(const std::string& what) {
  progress_->message(what);
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "warning", .step = step_, .message = what, .fields = {}}));
  if (++num_spikes_ <= recipe_.train.max_spikes) return {};
  return failed_precondition(std::to_string(num_spikes_) + " loss spikes (last: " + what +
                             "); lower optim.lr or raise "
                             "train.spike_factor");
}

Status Run::step() {
  Timeline* timeline = executor_.timeline();
  const SpanScope step_span(timeline, SpanKind::kGroup, "step");
  const auto start = Clock::now();
  SpanScope data_span(timeline, SpanKind::kHost, "data");
  MS_ASSIGN_OR_RETURN(std::vector<Datum> datums, next_batch());
  double rate_factor = 1.0;
  if (options_.before_step) options_.before_step(datums, rate_factor);
  add_z_weights(datums);
  data_span.end();
  const double data_s = seconds_since(start);
  const auto pass_start = Clock::now();
  SpanScope pass_span(timeline, SpanKind::kGroup, "forward_backward");
  MS_ASSIGN_OR_RETURN(const ForwardBackwardResult result,
                      setup_.engine->forward_backward(setup_.id, datums, loss_name()));
  pass_span.end();
  const double pass_s = seconds_since(pass_start);
  if (expected_loss_.has_value() && *expected_loss_ != result.loss_sum) {
    return data_loss("resumed at step " + std::to_string(step_) + ": the next loss is " +
                     std::to_string(result.loss_sum) + " but was " +
                     std::to_string(*expected_loss_) +
                     " before: the data, the program or the machine has changed");
  }
  expected_loss_.reset();
  const double loss = result.loss_sum / result.weight_sum;
  const bool is_spike = guard_.is_spike(loss);
  if (is_spike && recipe_.train.spikes == "rollback") {
    MS_ASSIGN_OR_RETURN(const bool spoiled, previous_step_spoiled());
    if (spoiled) {
      setup_.engine->zero_grad(setup_.id);
      return roll_back();
    }
  }
  if (save_awaits_loss_) {
    writer_->note_next_loss(result.loss_sum);
    save_awaits_loss_ = false;
  }
  const auto update_start = Clock::now();
  if (writer_ != nullptr) {
    writer_->wait_before_mutation();
    MS_RETURN_IF_ERROR(report_saves());
  }
  SpanScope update_span(timeline, SpanKind::kHost, "optimizer outside kernels");
  OptimStepResult update{.grad_norm = std::numeric_limits<double>::quiet_NaN(), .applied = false};
  if (result.finite && !is_spike) {
    MS_ASSIGN_OR_RETURN(update, apply(result, rate_factor));
  } else {
    setup_.engine->zero_grad(setup_.id);
  }
  update_span.end();
  ++step_;
  if (folder_ == nullptr) return note_profiled(datums, result, update.applied);
  const std::string cause = update.applied              ? ""
                            : is_spike && result.finite ? StepMetrics::kSpike
                            : result.finite             ? "the gradient is not finite"
                                                        : "the loss is not finite";
  record_step(datums, result, update, cause, data_s, pass_s, seconds_since(update_start));
  if (is_spike && result.finite) {
    MS_RETURN_IF_ERROR(note_spike("step " + std::to_string(step_) + " not applied: its loss " +
                                  std::to_string(loss) + " is a spike, usual is below " +
                                  std::to_string(guard_.limit())));
  } else if (!update.applied) {
    MS_RETURN_IF_ERROR(after_bad_step(datums, cause));
  } else {
    bad_in_a_row_ = 0;
    guard_.note(loss);
    if (recipe_.train.spikes == "rollback") previous_ = std::move(datums);
    previous_batch_ = batch_;
  }
  if (is_due(recipe_.train.eval_every)) MS_RETURN_IF_ERROR(evaluate());
  if (is_due(recipe_.checkpoint.every)) MS_RETURN_IF_ERROR(save());
  return {};
}

// The batch is kept as token rows, so that it can be looked at and run again.
Status Run::after_bad_step(const std::vector<Datum>& datums, const std::string& cause) {
  ++bad_in_a_row_;
  std::string lines;
  for (const Datum& datum : datums) {
    Json row;
    row["sample_index"] = datum.sample_index;
    row["epoch"] = datum.epoch;
    row["tokens"] = datum.tokens;
    row["targets"] = datum.targets;
    row["weights"] = datum.weights;
    lines += row.dump() + "\n";
  }
  const std::string path = folder_->dir() + "/bad_batches/step-" + std::to_string(step_) + ".jsonl";
  std::filesystem::create_directories(folder_->dir() + "/bad_batches");
  MS_RETURN_IF_ERROR(write_file_atomically(path, lines));
  const std::string message =
      "step " + std::to_string(step_) + " not applied: " + cause + "; batch kept in " + path;
  progress_->message(message);
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "warning", .step = step_, .message = message, .fields = {}}));
  if (bad_in_a_row_ < recipe_.train.max_bad_steps) return {};
  return failed_precondition(std::to_string(bad_in_a_row_) +
                             " steps in a row were not applied (last cause: " + cause +
                             "); lower optim.lr or look at " + path);
}

void Run::record_step(const std::vector<Datum>& datums, const ForwardBackwardResult& result,
                      const OptimStepResult& update, const std::string& not_applied, double data_s,
                      double pass_s, double update_s) {
  const double total_s = data_s + pass_s + update_s;
  std::map<std::string, double> more{
      {"micro_batches", static_cast<double>(result.num_micro_batches)}};
  double loss = result.loss_sum / result.weight_sum;
  if (recipe_.train.z_loss > 0) {  // shown apart, so that losses of runs compare
    const double whole = loss;
    loss = cross_entropy_of(datums, result) / result.weight_sum;
    more["z_loss"] = whole - loss;
  }
  StepMetrics metrics{
      .step = step_,
      .loss = loss,
      .loss_sum = result.loss_sum,
      .token_count = result.weight_sum,
      .lr = static_cast<double>(learning_rate(recipe_, setup_.schedule, step_ - 1)),
      .grad_norm = update.grad_norm,
      .tokens_per_s = static_cast<double>(result.num_tokens) / total_s,
      .mfu = mfu(flops_.of_step(datums), total_s, flops_.peak),
      .mfu_peak_flops = flops_.peak,
      .mfu_formula = flops_.formula,
      .seconds = {{"data", data_s}, {"forward_backward", pass_s}, {"optim_step", update_s}},
      .peak_bytes = setup_.engine->peak_bytes(),
      .applied = update.applied,
      .not_applied = not_applied,
      .more = std::move(more)};
  progress_->step(metrics);
  if (const Status status = folder_->append_metrics(metrics); !status.ok()) {
    progress_->message("metrics not written: " + status.to_string());
  }
}

Status Run::evaluate() {
  if (!setup_.eval_rows.empty()) {
    MS_ASSIGN_OR_RETURN(const ForwardBackwardResult result,
                        setup_.engine->forward(setup_.id, setup_.eval_rows, "cross_entropy"));
    const double loss = result.loss_sum / result.weight_sum;
    if (result_.num_evals == 0) result_.first_eval_loss = loss;
    result_.last_eval_loss = loss;
    ++result_.num_evals;
    last_eval_ = loss;
    const EvalMetrics metrics{
        .step = step_, .loss = loss, .loss_sum = result.loss_sum, .token_count = result.weight_sum};
    progress_->eval(metrics);
    MS_RETURN_IF_ERROR(folder_->append_eval(metrics));
  }
  MS_ASSIGN_OR_RETURN(const auto samples, answer_prompts(*setup_.engine, setup_.id, setup_.text,
                                                         {.prompts = recipe_.train.sample_prompts,
                                                          .max_tokens = recipe_.train.sample_tokens,
                                                          .step = step_}));
  for (const RunSample& sample : samples) {
    MS_RETURN_IF_ERROR(folder_->append_sample(sample));
    progress_->message("  " + sample.pieces[0].text + "  -> " + sample.pieces[1].text);
  }
  return {};
}

Status Run::save() {
  TrainState state{.step = step_,
                   .seed = recipe_.seed,
                   .data = setup_.data->state(),
                   .extra = {},
                   .eval_loss = last_eval_};
  if (recipe_.train.spikes != "ignore") {
    state.extra = {{kLeftOut, ranges_text(left_out_)},
                   {kSpikeLosses, guard_.state()},
                   {kNumSpikes, std::to_string(num_spikes_)}};
    if (!previous_.empty()) state.extra[kPrevious] = batch_text(previous_batch_);
  }
  MS_ASSIGN_OR_RETURN(CheckpointContent content,
                      checkpoint_content(*setup_.engine, setup_.id, std::move(state)));
  MS_RETURN_IF_ERROR(writer_->start(std::move(content)));
  saved_step_ = step_;
  save_awaits_loss_ = true;
  return {};
}

// A failed save is shown and written down; training goes on with the older checkpoints intact.
Status Run::report_saves() {
  for (const SaveReport& report : writer_->take_reports()) {
    RunEvent event{.kind = "checkpoint",
                   .step = report.step,
                   .message = report.path,
                   .fields = {{"digest", report.digest}}};
    if (report.status.ok()) {
      result_.newest_checkpoint = report.path;
    } else {
      event = {.kind = "warning",
               .step = report.step,
               .message = "save of step " + std::to_string(report.step) +
                          " failed: " + report.status.to_string(),
               .fields = {}};
      progress_->message(event.message);
    }
    MS_RETURN_IF_ERROR(folder_->append_event(event));
  }
  return {};
}

Status Run::finish(const std::string& state) {
  const Status saved = writer_->wait();
  MS_RETURN_IF_ERROR(report_saves());
  progress_->finish();
  MS_RETURN_IF_ERROR(
      folder_->append_event({.kind = "stop", .step = step_, .message = state, .fields = {}}));
  MS_RETURN_IF_ERROR(folder_->write_report(state));
  result_.report = folder_->dir() + "/report.html";
  return state == "failed" ? Status() : saved.with_context("the last save failed");
}

}  // namespace

Result<TrainResult> run_training(const Recipe& recipe, Executor& executor,
                                 const TrainOptions& options) {
  return Run(recipe, executor, options).go();
}

Result<ProfiledRun> run_profile(const Recipe& recipe, Executor& executor,
                                const ProfileOptions& options) {
  const TrainOptions nothing_written;
  return Run(recipe, executor, nothing_written).profile(options);
}

}  // namespace mainspring

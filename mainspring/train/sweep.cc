#include "mainspring/train/sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <new>
#include <set>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/run/folder_lock.h"
#include "mainspring/run/lines_file.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/records.h"
#include "mainspring/run/sweep_page.h"
#include "mainspring/train/count.h"
#include "mainspring/train/resume_check.h"
#include "mainspring/train/trainer.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

int64_t system_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// How a point ended.
struct Outcome {
  std::string state;  // "finished", "failed"
  std::string code;   // of a failure
  std::string error;

  // What training itself came to, it comes to again; what the world refused may be given later.
  bool is_final() const {
    return state == "finished" || code == status_code_name(StatusCode::kFailedPrecondition);
  }
};

using Outcomes = std::map<std::string, Outcome>;  // by the point's folder; the last line counts

Status read_outcomes(LinesFile& file, bool cut, Outcomes& outcomes) {
  return file.scan(cut, [&](const Json& json) {
    if (!json.is_object() || !json.contains("point") || !json["point"].is_string()) return false;
    outcomes[json["point"].get<std::string>()] = {json.value("state", ""), json.value("code", ""),
                                                  json.value("error", "")};
    return true;
  });
}

std::string outcomes_path(const std::string& dir) { return join_path(dir, "outcomes.jsonl"); }

Status check_place(const std::string& dir, bool resume) {
  if (dir.empty()) return invalid_argument("sweep folder: the path is empty");
  const bool has_sweep = fs::exists(join_path(dir, "sweep.json"));
  if (resume && !has_sweep) {
    return not_found(dir + ": there is no sweep to go on with; start it without --resume");
  }
  if (resume) return {};
  if (has_sweep) {
    return already_exists(dir +
                          ": holds a sweep already; pass --resume to go on with it, or choose "
                          "another folder");
  }
  return check_run_folder(dir, false);
}

// A point that was begun by another recipe would stand in one table with those of this one.
Status check_same_recipe(const std::string& run_dir, const Recipe& recipe) {
  MS_ASSIGN_OR_RETURN(const auto was, read_run_recipe(run_dir));
  auto changes = changes_between(was, recipe.values);
  std::erase_if(changes, [](const RecipeChange& change) { return change.key == "title"; });
  if (changes.empty()) return {};
  return failed_precondition(run_dir + ": was trained with other values (" + changes_text(changes) +
                             "); set them back, or sweep into another folder");
}

// FLOPs that a recipe asks for; what the time left is weighed by.
Result<double> work_of(const Recipe& recipe) {
  MS_ASSIGN_OR_RETURN(const RecipeCount count, count_recipe(recipe));
  return std::max(1.0, count.flops_per_token * static_cast<double>(count.tokens));
}

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const SweepOptions& options)
      : plan_(plan),
        options_(options),
        record_(plan.record),
        outcome_lines_(outcomes_path(options.dir)) {}

  Result<SweepResult> go();

 private:
  std::string run_dir(size_t i) const {
    return join_path(options_.dir, plan_.record.points[i].folder);
  }
  std::string label(size_t i) const { return "point " + plan_.record.points[i].name; }
  Status open();
  Status check_points();
  Status check_point(size_t i, Executor& executor);
  void see_outcomes();
  Status train_point(size_t i);
  Result<TrainResult> train(size_t i);
  Status end_point(size_t i, const Outcome& outcome);
  Status write_files(const std::string& state);
  Status write_plan();
  std::string line_head(size_t i, int64_t step);
  double eta_s(double work_in_progress) const;
  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }
  bool should_stop() const { return options_.should_stop && options_.should_stop(); }

  const SweepPlan& plan_;
  const SweepOptions& options_;
  SweepRecord record_;
  FolderLock lock_;
  LinesFile outcome_lines_;
  Outcomes outcomes_;
  std::vector<size_t> left_;  // points to train
  std::vector<double> work_;  // by point; of those to train
  bool stopped_ = false;
  // For the time left, in work: to do when this process began, and done by it.
  Clock::time_point start_;
  double work_total_ = 0;
  double work_done_ = 0;
  int64_t first_step_ = -1;  // of the point in progress, in this process
};

Status Sweep::open() {
  MS_RETURN_IF_ERROR(check_place(options_.dir, options_.resume));
  if (options_.resume) MS_RETURN_IF_ERROR(lock_.take(options_.dir, "sweep"));
  MS_RETURN_IF_ERROR(read_outcomes(outcome_lines_, options_.resume, outcomes_));
  for (size_t i = 0; i < record_.points.size(); ++i) {
    // Who removes a point's folder wants it trained again.
    if (!holds_run(run_dir(i))) outcomes_.erase(record_.points[i].folder);
  }
  for (const size_t i : options_.chosen) {
    const auto outcome = outcomes_.find(record_.points[i].folder);
    if (outcome == outcomes_.end() || !outcome->second.is_final()) left_.push_back(i);
  }
  MS_RETURN_IF_ERROR(check_points());
  if (!options_.resume) {
    MS_RETURN_IF_ERROR(make_directories(join_path(options_.dir, "points")));
    MS_RETURN_IF_ERROR(lock_.take(options_.dir, "sweep"));
  }
  see_outcomes();
  for (size_t i = 0; i < record_.points.size(); ++i) {
    MS_RETURN_IF_ERROR(read_sweep_point(run_dir(i), record_.points[i]));
  }
  return write_plan();
}

// All that can refuse a point does so here, before one of them is trained.
Status Sweep::check_points() {
  for (size_t i = 0; i < plan_.recipes.size(); ++i) {
    if (!holds_run(run_dir(i))) continue;
    MS_RETURN_IF_ERROR(check_same_recipe(run_dir(i), plan_.recipes[i]));
  }
  work_.resize(plan_.recipes.size());
  if (left_.empty()) return {};
  MS_ASSIGN_OR_RETURN(const auto executor, options_.make_executor());
  for (const size_t i : left_) {
    if (should_stop()) break;
    MS_RETURN_IF_ERROR(check_point(i, *executor).with_context(label(i)));
    work_total_ += work_[i];
  }
  return {};
}

Status Sweep::check_point(size_t i, Executor& executor) {
  MS_ASSIGN_OR_RETURN(work_[i], work_of(plan_.recipes[i]));
  TrainOptions options;
  options.run_dir = run_dir(i);
  options.resume = holds_run(run_dir(i));
  options.dry_run = true;
  MS_ASSIGN_OR_RETURN(const TrainResult result, run_training(plan_.recipes[i], executor, options));
  if (result.num_eval_rows > 0 || record_.metric.key.find("eval") == std::string::npos) return {};
  return failed_precondition("metric = \"" + record_.metric.key +
                             "\" needs held-out rows: set data.held_out or data.eval_files (token "
                             "shards: data build --held-out), or metric = \"train_loss\"");
}

void Sweep::see_outcomes() {
  for (size_t i = 0; i < record_.points.size(); ++i) {
    SweepPoint& point = record_.points[i];
    const auto outcome = outcomes_.find(point.folder);
    if (outcome == outcomes_.end()) {
      if (holds_run(run_dir(i))) point.state = SweepState::kRunning;
      continue;
    }
    point.state = outcome->second.state == "finished" ? SweepState::kFinished : SweepState::kFailed;
    point.error = outcome->second.error;
  }
}

Status Sweep::write_plan() {
  Json json;
  json["title"] = record_.title;
  json["recipe"] = record_.recipe;
  json["metric"] = record_.metric.key;
  json["written"] = format_time(system_now_ns());
  json["points"] = Json::array();
  for (const SweepPoint& point : record_.points) {
    json["points"].push_back({{"point", point.name}, {"folder", point.folder}});
  }
  return write_file_atomically(join_path(options_.dir, "sweep.json"), json_text(json, 1) + "\n");
}

// Seconds, by the work that this process has done so far; -1 before it has done any.
double Sweep::eta_s(double work_in_progress) const {
  const double done = work_done_ + work_in_progress;
  if (done <= 0) return -1.0;
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  return elapsed.count() / done * std::max(0.0, work_total_ - done);
}

std::string Sweep::line_head(size_t i, int64_t step) {
  if (first_step_ < 0) {
    first_step_ = step - 1;
    // What an earlier process did of this point is no work to do.
    work_total_ -= work_[i] * static_cast<double>(first_step_) /
                   static_cast<double>(plan_.recipes[i].train.steps);
  }
  const double part =
      static_cast<double>(step - first_step_) / static_cast<double>(plan_.recipes[i].train.steps);
  const auto ended =
      std::count_if(record_.points.begin(), record_.points.end(), [](const SweepPoint& point) {
        return point.state == SweepState::kFinished || point.state == SweepState::kFailed;
      });
  return "[" + std::to_string(ended + 1) + "/" + std::to_string(record_.points.size()) + " " +
         record_.points[i].name + ", sweep left " + format_duration(eta_s(part * work_[i])) + "] ";
}

Result<TrainResult> Sweep::train(size_t i) {
  const bool resume = holds_run(run_dir(i));
  TrainOptions options;
  options.run_dir = run_dir(i);
  options.resume = resume;
  options.should_stop = options_.should_stop;
  options.facts = {{"sweep", record_.title}, {"point", record_.points[i].name}};
  options.line_head = [this, i](int64_t step) { return line_head(i, step); };
  if (resume) options.say = [this](const std::string& line) { say("  " + line); };
  first_step_ = -1;
  try {
    MS_ASSIGN_OR_RETURN(const auto executor, options_.make_executor());
    return run_training(plan_.recipes[i], *executor, options);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("out of memory");
  }
}

Status Sweep::train_point(size_t i) {
  SweepPoint& point = record_.points[i];
  const double work_before = work_done_;
  const double total_before = work_total_;
  say(label(i) + (holds_run(run_dir(i)) ? " goes on" : ""));
  point.state = SweepState::kRunning;
  point.error.clear();
  const Result<TrainResult> result = train(i);
  if (first_step_ < 0)
    work_total_ -= work_[i];  // it made no step: nothing to measure the time left by
  else
    work_done_ = work_before + work_[i] - (total_before - work_total_);
  MS_RETURN_IF_ERROR(read_sweep_point(run_dir(i), point));
  if (result.ok() && result.value().stopped) {
    stopped_ = true;
    return {};
  }
  if (result.ok()) return end_point(i, {.state = "finished", .code = "", .error = ""});
  return end_point(i, {.state = "failed",
                       .code = std::string(status_code_name(result.status().code())),
                       .error = result.status().message()});
}

Status Sweep::end_point(size_t i, const Outcome& outcome) {
  SweepPoint& point = record_.points[i];
  outcomes_[point.folder] = outcome;
  point.state = outcome.state == "finished" ? SweepState::kFinished : SweepState::kFailed;
  point.error = outcome.error;
  Json line = {{"point", point.folder}, {"state", outcome.state}};
  if (!outcome.code.empty()) line["code"] = outcome.code;
  if (!outcome.error.empty()) line["error"] = outcome.error;
  line["time"] = format_time(system_now_ns());
  MS_RETURN_IF_ERROR(outcome_lines_.append(line));
  if (!outcome.error.empty()) say("  failed: " + outcome.error);
  return write_files("running");
}

Status Sweep::write_files(const std::string& state) {
  record_.state = state;
  record_.now_ns = system_now_ns();
  record_.eta_s = state == "running" ? eta_s(0) : -1.0;
  MS_RETURN_IF_ERROR(write_file_atomically(join_path(options_.dir, "results.json"),
                                           json_text(sweep_json(record_), 1) + "\n"));
  MS_RETURN_IF_ERROR(
      write_file_atomically(join_path(options_.dir, "results.csv"), sweep_csv(record_)));
  return write_file_atomically(join_path(options_.dir, "sweep.html"), sweep_page(record_));
}

Result<SweepResult> Sweep::go() {
  MS_RETURN_IF_ERROR(open());
  start_ = Clock::now();
  MS_RETURN_IF_ERROR(write_files("running"));
  for (const size_t i : left_) {
    if (stopped_ || should_stop()) {
      stopped_ = true;
      break;
    }
    MS_RETURN_IF_ERROR(train_point(i));
  }
  const bool all_ended =
      std::all_of(record_.points.begin(), record_.points.end(), [](const SweepPoint& point) {
        return point.state == SweepState::kFinished || point.state == SweepState::kFailed;
      });
  MS_RETURN_IF_ERROR(write_files(all_ended ? "finished" : "stopped"));
  SweepResult result{.record = record_, .stopped = stopped_};
  for (const SweepPoint& point : record_.points) {
    if (point.state != SweepState::kFailed) continue;
    ++result.num_failed;
    if (!outcomes_.at(point.folder).is_final()) ++result.num_to_retry;
  }
  return result;
}

}  // namespace

Result<SweepResult> run_sweep(const SweepPlan& plan, const SweepOptions& options) {
  return Sweep(plan, options).go();
}

Status read_sweep_states(const std::string& dir, SweepRecord& record) {
  Outcomes outcomes;
  LinesFile lines(outcomes_path(dir));
  MS_RETURN_IF_ERROR(read_outcomes(lines, false, outcomes));
  for (SweepPoint& point : record.points) {
    const std::string run_dir = join_path(dir, point.folder);
    MS_RETURN_IF_ERROR(read_sweep_point(run_dir, point));
    const auto outcome = outcomes.find(point.folder);
    if (outcome != outcomes.end()) {
      point.state =
          outcome->second.state == "finished" ? SweepState::kFinished : SweepState::kFailed;
      point.error = outcome->second.error;
    } else if (holds_run(run_dir)) {
      point.state = SweepState::kRunning;
    }
  }
  return {};
}

}  // namespace mainspring

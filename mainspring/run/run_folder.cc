#include "mainspring/run/run_folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>

#include "mainspring/base/nearest.h"
#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/system_error.h"
#include "mainspring/run/curve.h"
#include "mainspring/run/folder_lock.h"
#include "mainspring/run/lines_file.h"
#include "mainspring/run/records.h"
#include "mainspring/run/report.h"

namespace mainspring {
namespace {

constexpr size_t kKeepEvents = 200;  // in the page; all are in events.jsonl
constexpr size_t kKeepSamples = 24;  // of each kind in the page; all are in samples/
constexpr size_t kKeepEvals = 2000;  // in the page
constexpr size_t kKeepCurves = 64;   // in the page, besides the fixed ones

bool exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

int64_t system_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string sample_file_name(int64_t step) {
  char name[48];
  std::snprintf(name, sizeof(name), "step-%06lld.jsonl", static_cast<long long>(step));
  return name;
}

/// The step of "step-000010.jsonl", -1 for another name.
int64_t sample_file_step(const std::string& name) {
  long long step = -1;
  int used = 0;
  if (std::sscanf(name.c_str(), "step-%lld.jsonl%n", &step, &used) != 1) return -1;
  return used == static_cast<int>(name.size()) ? step : -1;
}

/// Names in a folder, sorted; none if it cannot be read.
std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names;
  DIR* handle = ::opendir(dir.c_str());
  if (handle == nullptr) return names;
  while (const dirent* entry = ::readdir(handle)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(handle);
  std::sort(names.begin(), names.end());
  return names;
}

constexpr const char* kRunFiles[] = {"run.json", "metrics.jsonl", "events.jsonl", "checkpoints"};

/// The first part of a run that `dir` holds; "" if none.
std::string run_file_in(const std::string& dir) {
  for (const char* name : kRunFiles) {
    if (exists(join_path(dir, name))) return name;
  }
  return "";
}

/// "runs" of "runs/a", "." of "a".
std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Status no_run_to_resume(std::string dir) {
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  const std::string parent = parent_of(dir);
  std::vector<std::string> runs;
  for (const std::string& name : names_in(parent)) {
    if (!run_file_in(join_path(parent, name)).empty()) runs.push_back(name);
  }
  const std::string nearest = nearest_name(std::filesystem::path(dir).filename().string(), runs);
  return not_found(dir + ": there is no such run to resume; " +
                   (nearest.empty() ? "no run is beside it, so start it without --resume"
                                    : "the nearest beside it is " + join_path(parent, nearest)));
}

/// Whether the place is fit for a run; touches nothing.
Status check_place(const std::string& dir, bool resume) {
  if (dir.empty()) return invalid_argument("run folder: the path is empty");
  if (!exists(dir)) return resume ? no_run_to_resume(dir) : Status();
  if (!is_directory(dir)) return invalid_argument(dir + ": is a file; a run needs a folder");
  if (resume) return {};
  const std::string found = run_file_in(dir);
  if (found.empty()) return {};
  return already_exists(dir + ": holds a run already (" + found +
                        "); pass --resume to go on with it, or choose another folder");
}

RunSample sample_from(const Json& json) {
  RunSample sample;
  sample.step = json.value("step", int64_t{0});
  sample.kind = json.value("kind", "");
  sample.title = json.value("title", "");
  for (const Json& entry : json.at("pieces")) {
    SamplePiece piece{entry.at(0).get<std::string>(), entry.at(1).get<int>() != 0, {}};
    if (entry.size() > 2 && entry.at(2).is_number()) piece.logprob = entry.at(2).get<double>();
    sample.pieces.push_back(std::move(piece));
  }
  if (json.contains("advantage") && json["advantage"].is_number()) {
    sample.advantage = json["advantage"].get<double>();
  }
  sample.note = json.value("note", "");
  return sample;
}

TimedEvent event_from(const Json& json) {
  TimedEvent timed;
  for (const auto& [key, value] : json.items()) {
    if (key == "time") {
      timed.time = value.get<std::string>();
    } else if (key == "step") {
      timed.event.step = value.get<int64_t>();
    } else if (key == "kind") {
      timed.event.kind = value.get<std::string>();
    } else if (key == "message") {
      timed.event.message = value.get<std::string>();
    } else if (value.is_string()) {
      timed.event.fields[key] = value.get<std::string>();
    }
  }
  return timed;
}

}  // namespace

class RunFolder::Impl {
 public:
  explicit Impl(RunFolderOptions options)
      : options_(std::move(options)),
        metrics_(join_path(options_.dir, "metrics.jsonl")),
        evals_(join_path(options_.dir, "evals.jsonl")),
        events_(join_path(options_.dir, "events.jsonl")) {
    if (!options_.now_ns) options_.now_ns = system_now_ns;
    for (const char* name : {"loss", "lr", "grad_norm", "tokens_per_s"}) {
      curves_.emplace_back(name, Curve(options_.keep_points));
    }
  }

  Status open();
  Status load();
  Status write_info(const RunInfo& info);
  Status truncate_after_step(int64_t step);
  Status append_metrics(const StepMetrics& metrics);
  Status append_eval(const EvalMetrics& metrics);
  Status append_event(const RunEvent& event);
  Status append_sample(const RunSample& sample);
  Status write_report(const std::string& state);

  const std::string& dir() const { return options_.dir; }
  const std::optional<EvalMetrics>& first_eval() const { return first_eval_; }

 private:
  std::string path(std::string_view name) const { return join_path(options_.dir, name); }
  void forget();
  void see(const StepMetrics& metrics);
  void see(const EvalMetrics& metrics);
  void see(const TimedEvent& event);
  void see(const RunSample& sample);
  void add_point(const std::string& name, int64_t step, double value);
  double eta_s() const;
  Status report_if_due();

  RunFolderOptions options_;
  FolderLock lock_;
  LinesFile metrics_;
  LinesFile evals_;
  LinesFile events_;
  RunInfo info_;
  std::string started_;
  std::string state_ = "running";
  int64_t last_report_ns_ = 0;

  std::vector<std::pair<std::string, Curve>> curves_;
  std::map<std::string, Curve> more_curves_;  // by names with a slash
  std::optional<EvalMetrics> first_eval_;     // the points are thinned
  std::vector<EvalMetrics> eval_points_;
  std::deque<TimedEvent> event_lines_;
  std::deque<RunSample> train_samples_;
  std::deque<RunSample> generated_samples_;
  StepMetrics last_;
  double first_loss_ = NAN;
  double learned_tokens_ = 0.0;
  int64_t steps_not_applied_ = 0;
  // For the time left: when the first and last step of this process came.
  int64_t first_step_ = -1;
  int64_t first_step_ns_ = 0;
  int64_t last_step_ns_ = 0;
};

Status RunFolder::Impl::open() {
  MS_RETURN_IF_ERROR(check_place(options_.dir, options_.resume));
  MS_RETURN_IF_ERROR(make_directories(options_.dir));
  MS_RETURN_IF_ERROR(make_directories(path("samples")));
  MS_RETURN_IF_ERROR(make_directories(path("checkpoints")));
  MS_RETURN_IF_ERROR(lock_.take(options_.dir, "run"));
  const Result<int64_t> swept = remove_temporaries(options_.dir);
  if (!swept.ok()) return swept.status();
  return load();
}

void RunFolder::Impl::forget() {
  for (auto& [name, curve] : curves_) curve.clear();
  more_curves_.clear();
  first_eval_.reset();
  eval_points_.clear();
  event_lines_.clear();
  train_samples_.clear();
  generated_samples_.clear();
  last_ = StepMetrics{};
  first_loss_ = NAN;
  learned_tokens_ = 0.0;
  steps_not_applied_ = 0;
  first_step_ = -1;
}

/// Reads what is there, and cuts broken last lines.
Status RunFolder::Impl::load() {
  forget();
  MS_RETURN_IF_ERROR(metrics_.scan(true, [&](const Json& json) {
    const Result<StepMetrics> metrics = step_metrics_from(json, metrics_.path());
    if (metrics.ok()) see(*metrics);
    return metrics.ok();
  }));
  MS_RETURN_IF_ERROR(evals_.scan(true, [&](const Json& json) {
    const Result<EvalMetrics> metrics = eval_metrics_from(json, evals_.path());
    if (metrics.ok()) see(*metrics);
    return metrics.ok();
  }));
  MS_RETURN_IF_ERROR(events_.scan(true, [&](const Json& json) {
    try {
      see(event_from(json));
    } catch (const Json::exception&) {
      return false;
    }
    return true;
  }));
  for (const std::string& name : names_in(path("samples"))) {
    if (sample_file_step(name) < 0) continue;
    LinesFile file(join_path(path("samples"), name));
    MS_RETURN_IF_ERROR(file.scan(true, [&](const Json& json) {
      try {
        see(sample_from(json));
      } catch (const Json::exception&) {
        return false;
      }
      return true;
    }));
  }
  const Result<Json> info = exists(path("run.json")) ? read_json_file(path("run.json")) : Json();
  if (info.ok() && info->is_object() && info->contains("started") &&
      (*info)["started"].is_string()) {
    started_ = (*info)["started"].get<std::string>();
  }
  return {};
}

Status RunFolder::Impl::write_info(const RunInfo& info) {
  info_ = info;
  const int64_t now = options_.now_ns();
  Json json = to_json(info, now);
  if (exists(path("run.json"))) {
    int number = 1;
    while (exists(path("run." + std::to_string(number) + ".json"))) ++number;
    const std::string kept = path("run." + std::to_string(number) + ".json");
    // A link, so that run.json is there at every moment.
    if (::link(path("run.json").c_str(), kept.c_str()) != 0)
      return system_error("link", kept, errno);
    if (!started_.empty()) {
      json["started"] = started_;
      json["resumed"] = format_time(now);
    }
  } else {
    started_ = json["started"].get<std::string>();
  }
  return write_file_atomically(path("run.json"), json_text(json, 2) + "\n");
}

Status RunFolder::Impl::truncate_after_step(int64_t step) {
  const auto up_to_step = [step](const Json& json) {
    return json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
           json["step"].get<int64_t>() <= step;
  };
  MS_RETURN_IF_ERROR(metrics_.scan(true, up_to_step));
  MS_RETURN_IF_ERROR(evals_.scan(true, up_to_step));
  for (const std::string& name : names_in(path("samples"))) {
    if (sample_file_step(name) > step)
      MS_RETURN_IF_ERROR(remove_tree(join_path(path("samples"), name)));
  }
  return load();
}

void RunFolder::Impl::see(const StepMetrics& metrics) {
  const double values[] = {metrics.loss, metrics.lr, metrics.grad_norm, metrics.tokens_per_s};
  for (size_t i = 0; i < std::size(values); ++i) curves_[i].second.add(metrics.step, values[i]);
  for (const auto& [name, value] : metrics.more) add_point(name, metrics.step, value);
  if (std::isnan(first_loss_)) first_loss_ = metrics.loss;
  if (std::isfinite(metrics.token_count)) learned_tokens_ += metrics.token_count;
  if (!metrics.applied) ++steps_not_applied_;
  last_ = metrics;
}

// A curve is made by the first value that it gets.
void RunFolder::Impl::add_point(const std::string& name, int64_t step, double value) {
  if (name.find('/') == std::string::npos) return;
  auto found = more_curves_.find(name);
  if (found == more_curves_.end()) {
    if (more_curves_.size() >= kKeepCurves) return;
    found = more_curves_.emplace(name, Curve(options_.keep_points)).first;
  }
  found->second.add(step, value);
}

void RunFolder::Impl::see(const EvalMetrics& metrics) {
  for (const auto& [name, value] : metrics.more) add_point(name, metrics.step, value);
  if (!first_eval_.has_value()) first_eval_ = metrics;
  eval_points_.push_back(metrics);
  if (eval_points_.size() <= kKeepEvals) return;
  for (size_t i = 0; 2 * i + 1 < eval_points_.size(); ++i)
    eval_points_[i] = eval_points_[2 * i + 1];
  eval_points_.resize(eval_points_.size() / 2);
}

void RunFolder::Impl::see(const TimedEvent& event) {
  event_lines_.push_back(event);
  if (event_lines_.size() > kKeepEvents) event_lines_.pop_front();
}

void RunFolder::Impl::see(const RunSample& sample) {
  std::deque<RunSample>& samples = sample.kind == "generated" ? generated_samples_ : train_samples_;
  samples.push_back(sample);
  if (samples.size() <= kKeepSamples) return;
  // The first answer to a question stays, so that the page can show before and after.
  const auto has_earlier = [&](const RunSample& candidate) {
    return std::any_of(samples.begin(), samples.end(), [&](const RunSample& other) {
      return other.title == candidate.title && other.step < candidate.step;
    });
  };
  const auto victim = &samples == &generated_samples_
                          ? std::find_if(samples.begin(), samples.end() - 1, has_earlier)
                          : samples.begin();
  samples.erase(victim == samples.end() - 1 ? samples.begin() : victim);
}

Status RunFolder::Impl::append_metrics(const StepMetrics& metrics) {
  MS_CHECK(metrics.step > last_.step,
           "steps must increase: truncate_after_step comes first on resume");
  see(metrics);
  last_step_ns_ = options_.now_ns();
  if (first_step_ < 0) {
    first_step_ = metrics.step;
    first_step_ns_ = last_step_ns_;
  }
  MS_RETURN_IF_ERROR(metrics_.append(to_json(metrics)));
  return report_if_due();
}

Status RunFolder::Impl::append_eval(const EvalMetrics& metrics) {
  see(metrics);
  MS_RETURN_IF_ERROR(evals_.append(to_json(metrics)));
  return report_if_due();
}

Status RunFolder::Impl::append_event(const RunEvent& event) {
  const int64_t now = options_.now_ns();
  see(TimedEvent{event, format_time(now)});
  MS_RETURN_IF_ERROR(events_.append(to_json(event, now)));
  return report_if_due();
}

Status RunFolder::Impl::append_sample(const RunSample& sample) {
  see(sample);
  LinesFile file(join_path(path("samples"), sample_file_name(sample.step)));
  MS_RETURN_IF_ERROR(file.append(to_json(sample)));
  return report_if_due();
}

double RunFolder::Impl::eta_s() const {
  const int64_t done = last_.step - first_step_;
  if (state_ != "running" || first_step_ < 0 || done < 1 || info_.total_steps <= last_.step)
    return -1.0;
  const double per_step =
      static_cast<double>(last_step_ns_ - first_step_ns_) / static_cast<double>(done);
  return 1e-9 * per_step * static_cast<double>(info_.total_steps - last_.step);
}

Status RunFolder::Impl::report_if_due() {
  const int64_t now = options_.now_ns();
  if (static_cast<double>(now - last_report_ns_) < 1e9 * options_.report_interval_s) return {};
  return write_report(state_);
}

Status RunFolder::Impl::write_report(const std::string& state) {
  state_ = state;
  ReportData data;
  data.info = info_;
  data.state = state;
  data.started = started_;
  data.now_ns = options_.now_ns();
  data.refresh_s = options_.report_interval_s;
  for (const auto& [name, curve] : curves_) data.curves.push_back({name, curve.points()});
  for (const auto& [name, curve] : more_curves_) data.curves.push_back({name, curve.points()});
  data.evals = eval_points_;
  data.last = last_;
  data.first_loss = first_loss_;
  data.learned_tokens = learned_tokens_;
  data.steps_not_applied = steps_not_applied_;
  data.eta_s = eta_s();
  data.samples.assign(generated_samples_.begin(), generated_samples_.end());
  data.samples.insert(data.samples.end(), train_samples_.begin(), train_samples_.end());
  data.events.assign(event_lines_.begin(), event_lines_.end());
  last_report_ns_ = data.now_ns;
  return write_file_atomically(path("report.html"), make_report(data));
}

bool holds_run(const std::string& dir) { return !run_file_in(dir).empty(); }

Result<std::vector<RecipeValue>> read_run_recipe(const std::string& dir) {
  const std::string path = join_path(dir, "run.json");
  if (!exists(path)) return std::vector<RecipeValue>();
  MS_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
  return recipe_from(json, path);
}

Status check_run_folder(const std::string& dir, bool resume) {
  MS_RETURN_IF_ERROR(check_place(dir, resume));
  if (exists(join_path(dir, "sweep.json"))) {
    return failed_precondition(dir + ": holds a sweep; give the run a folder of its own");
  }
  std::string place = dir;
  while (!exists(place)) place = parent_of(place);
  // Permissions do not tell of a read-only or full disk: only making something does.
  std::string trial = join_path(place, ".tmp-trial-XXXXXX");
  if (::mkdtemp(trial.data()) == nullptr) {
    return system_error("write in " + place + " for the run folder", dir, errno);
  }
  if (::rmdir(trial.c_str()) != 0) return system_error("remove", trial, errno);
  return {};
}

std::string folder_name(std::string_view title) {
  constexpr size_t kMaxBytes = 100;
  std::string name;
  for (const char c : title) {
    const bool is_inside = (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // of a UTF-8 character
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!is_inside) name += stays ? c : '-';
  }
  name.erase(0, std::min(name.find_first_not_of(".-"), name.size()));
  name.resize(std::min(name.size(), kMaxBytes));
  return name.empty() ? "run" : name;
}

RunFolder::RunFolder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunFolder::~RunFolder() = default;

Result<std::unique_ptr<RunFolder>> RunFolder::open(RunFolderOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  MS_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<RunFolder>(new RunFolder(std::move(impl)));
}

const std::string& RunFolder::dir() const { return impl_->dir(); }
std::string RunFolder::checkpoints_dir() const { return join_path(impl_->dir(), "checkpoints"); }
std::optional<EvalMetrics> RunFolder::first_eval() const { return impl_->first_eval(); }
Status RunFolder::write_info(const RunInfo& info) { return impl_->write_info(info); }
Status RunFolder::truncate_after_step(int64_t step) { return impl_->truncate_after_step(step); }
Status RunFolder::append_metrics(const StepMetrics& m) { return impl_->append_metrics(m); }
Status RunFolder::append_eval(const EvalMetrics& metrics) { return impl_->append_eval(metrics); }
Status RunFolder::append_event(const RunEvent& event) { return impl_->append_event(event); }
Status RunFolder::append_sample(const RunSample& sample) { return impl_->append_sample(sample); }
Status RunFolder::write_report(const std::string& state) { return impl_->write_report(state); }

}  // namespace mainspring

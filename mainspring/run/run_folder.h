// RunFolder: one training run as a folder that a person can open.
//
// The one idea: everything a run says about itself is appended to plain JSON lines and shown by one
// page:
//   run.json       the resolved recipe with the origin of each value, versions, seeds
//   metrics.jsonl  one line per step     evals.jsonl   one line per evaluation
//   events.jsonl   what happened, with time          samples/step-000010.jsonl
//   checkpoints/   written by ckpt/      report.html   self-contained, rewritten while the run goes
//   on
// Each line is one write, so a kill leaves at most one broken last line, which is cut off on
// resume. Not for sockets or terminals (progress.h). Design note: mainspring/run/README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

/// One value of the resolved recipe.
struct RecipeValue {
  std::string key;     // "train.steps"
  std::string json;    // its value as JSON text
  std::string origin;  // "default", "recipes/sft_lora.toml:12", "--set"
};

/// What run.json holds. All of it is known before the first step.
struct RunInfo {
  std::string title;  // "sft_lora"
  std::vector<RecipeValue> recipe;
  std::map<std::string, std::string> versions;  // "mainspring": "0.1.0", "compiler": ...
  std::map<std::string, uint64_t> seeds;
  std::map<std::string, std::string>
      facts;  // "model", "isa", "threads", "trainable parameters", ...
  int64_t total_steps = 0;
};

/// One line of metrics.jsonl. Fields that are not finite become null.
struct StepMetrics {
  int64_t step = 0;   // the first is 1
  double loss = 0.0;  // loss_sum / token_count
  double loss_sum = 0.0;
  double token_count = 0.0;  // of learned tokens, weighted
  double lr = 0.0;
  double grad_norm = 0.0;
  double tokens_per_s = 0.0;
  double mfu = 0.0;
  double mfu_peak_flops = 0.0;  // per second, that mfu is a fraction of
  std::string mfu_formula;
  std::map<std::string, double>
      seconds;  // time split: "data", "forward_backward", "optim_step", ...
  int64_t peak_bytes = 0;
  bool applied = true;      // false: the step was not applied
  std::string not_applied;  // why: "the gradient is not finite", ...; else empty
  /// Further numbers, written as fields; a name with a slash ("reward/mean") is a curve of the
  /// page.
  std::map<std::string, double> more;

  static constexpr const char* kSpike = "its loss is a spike";
  /// The gradient of such a step is not computed.
  bool was_spike() const { return not_applied == kSpike; }
};

/// One line of evals.jsonl.
struct EvalMetrics {
  int64_t step = 0;
  double loss = 0.0;  // NaN where another measure stands in `more`
  double loss_sum = 0.0;
  double token_count = 0.0;
  std::map<std::string, double> more;  // further numbers, written as fields
};

/// One line of events.jsonl.
struct RunEvent {
  std::string kind;  // "start", "resume", "checkpoint", "warning", "stop", ...
  int64_t step = 0;
  std::string message;
  std::map<std::string, std::string> fields;
};

/// A piece of text as the model saw or wrote it.
struct SamplePiece {
  std::string text;
  bool learned = false;  // loss mask, or: written by the model
  std::optional<double> logprob;
};

/// One line of a file in samples/.
struct RunSample {
  int64_t step = 0;
  /// "train": a row with its mask; "generated": a prompt and the model's answer; "rollout": one
  /// sample of a group, which the samples of one title are, with the prompt as its first piece.
  std::string kind;
  std::string title;  // "chat.jsonl:12", "held-out question 3"
  std::vector<SamplePiece> pieces;
  std::optional<double> advantage;  // of a rollout
  std::string note;                 // beside it: "reward 1"
};

struct RunFolderOptions {
  std::string dir;
  bool resume = false;
  double report_interval_s = 10.0;  // the page is rewritten at most so often while steps arrive
  int64_t keep_points = 2048;       // per curve in memory and page; beyond, neighbours are merged
  std::function<int64_t()> now_ns;  // wall clock since 1970; empty: the system's
};

/// A title as the name of one folder: ASCII letters, digits, "-", "_" and "." stay, every other
/// character becomes "-"; no leading "." or "-", at most 100 bytes, "run" if nothing is left.
std::string folder_name(std::string_view title);

/// Whether `dir` holds any part of a run, so that RunFolder::open needs `resume`.
bool holds_run(const std::string& dir);

/// The recipe that `dir`'s run.json tells of; empty without one. Errors: invalid argument if it is
/// no such file.
Result<std::vector<RecipeValue>> read_run_recipe(const std::string& dir);

/// Refuses what RunFolder::open would refuse, before any work, and leaves nothing behind. Errors:
/// as RunFolder::open; the system's if nothing can be made where the folder is or would be.
Status check_run_folder(const std::string& dir, bool resume);

/// Threads: one caller.
class RunFolder {
 public:
  /// Makes the folder; with `resume` it must be there. Errors: already exists (without resume, if
  /// anything of a run is in it); not found (with resume, names the nearest run beside it); invalid
  /// argument if `dir` is a file; resource exhausted for a full disk.
  static Result<std::unique_ptr<RunFolder>> open(RunFolderOptions options);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& dir() const;
  std::string checkpoints_dir() const;
  /// The run's first evaluation, also of a resumed run.
  std::optional<EvalMetrics> first_eval() const;

  /// Writes run.json (atomically; on resume the former one is kept as run.1.json, run.2.json ...).
  Status write_info(const RunInfo& info);

  /// Cuts metrics, evals and samples after `step`, so that each step is there once when the run
  /// goes on from it. A broken last line of any file goes too.
  Status truncate_after_step(int64_t step);

  /// Appends. Errors: resource exhausted for a full disk; the run may go on. Precondition: steps
  /// increase.
  Status append_metrics(const StepMetrics& metrics);
  Status append_eval(const EvalMetrics& metrics);
  Status append_event(const RunEvent& event);
  Status append_sample(const RunSample& sample);

  /// Rewrites report.html now. append_* call it by themselves when report_interval_s has passed.
  /// `state`: "running", "finished", "stopped" or "failed"; only a running page refreshes itself.
  Status write_report(const std::string& state);

 private:
  class Impl;
  explicit RunFolder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring

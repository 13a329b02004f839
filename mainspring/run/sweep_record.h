// SweepRecord: what a sweep has found so far: its axes, and one record per point read from the
// point's run folder.
//
// The one idea: a point is a run folder like any other, so nothing is kept twice: its losses come
// from metrics.jsonl and evals.jsonl, and only how it ended is the sweep's own.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"
#include "mainspring/run/curve.h"
#include "mainspring/run/run_folder.h"

namespace mainspring {

/// One axis of the grid: a recipe key, or several that change together.
struct SweepAxis {
  std::vector<std::string> keys;    // "optim.lr"
  std::string title;                // "lr", "hidden/heads"
  std::vector<std::string> labels;  // of its values: "0.003", "64/2"
  std::vector<double> numbers;      // of the first key's values; empty if one is no number
};

enum class SweepState { kWaiting, kRunning, kFinished, kFailed };
std::string_view sweep_state_name(SweepState state);

struct SweepPoint {
  std::string name;                 // "lr=0.003 hidden=64"
  std::string folder;               // below the sweep's: "points/lr-0.003_hidden-64"
  std::vector<size_t> at;           // index of its value on each axis
  std::vector<std::string> values;  // as JSON text, of each key of each axis in turn
  SweepState state = SweepState::kWaiting;
  std::string error;  // why it failed

  // Of its run folder; NaN where there is none.
  int64_t steps = 0;
  int64_t steps_not_applied = 0;
  double eval_loss = std::numeric_limits<double>::quiet_NaN();  // the last one
  double best_eval_loss = std::numeric_limits<double>::quiet_NaN();
  double train_loss = std::numeric_limits<double>::quiet_NaN();  // mean of the last tenth of steps
  double tokens_per_s = std::numeric_limits<double>::quiet_NaN();  // median
  double seconds = 0;                                              // of all steps
  std::vector<Curve::Point> losses;
  std::vector<EvalMetrics> evals;
};

/// What points are compared by.
struct SweepMetric {
  std::string key;    // "eval_loss"
  std::string title;  // "held-out loss"
  bool higher_is_better = false;
  double SweepPoint::* value = nullptr;
};
const std::vector<SweepMetric>& sweep_metrics();
/// Errors: invalid argument names the nearest one.
Result<SweepMetric> find_sweep_metric(const std::string& key);

struct SweepRecord {
  std::string title;
  std::string recipe;  // path of the base recipe
  SweepMetric metric;
  std::string state;  // "running", "finished", "stopped"
  std::vector<SweepAxis> axes;
  std::vector<SweepPoint> points;  // in the order of the grid
  double eta_s = -1.0;             // < 0: unknown
  int64_t now_ns = 0;
};

/// Fills what a point's run folder tells: steps, losses, rates, curves of at most 256 points.
/// A folder that is not there leaves them empty. Errors: the system's.
Status read_sweep_point(const std::string& run_dir, SweepPoint& point);

/// Indices of the points: finished ones from best to worst, those without the metric behind them,
/// then failed ones, then the rest; equals in the order of the grid.
std::vector<size_t> ranked(const SweepRecord& sweep);

/// For a terminal: a line per point, best first.
std::string sweep_text(const SweepRecord& sweep);
/// Every figure but the curves, best first.
Json sweep_json(const SweepRecord& sweep);
/// RFC 4180, with a head line; numbers that are not there are empty.
std::string sweep_csv(const SweepRecord& sweep);

}  // namespace mainspring

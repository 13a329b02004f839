#include "mainspring/run/sweep_record.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "mainspring/base/nearest.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/run/lines_file.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/records.h"

namespace mainspring {
namespace {

constexpr int64_t kCurvePoints = 256;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the last tenth of the steps, at least one; NaN if one of them is no number.
double mean_of_tail(const std::vector<double>& losses) {
  if (losses.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto tail = std::max<int64_t>(1, std::ssize(losses) / 10);
  return std::accumulate(losses.end() - tail, losses.end(), 0.0) / static_cast<double>(tail);
}

// Smaller is better ranked.
int group_of(const SweepPoint& point, const SweepMetric& metric) {
  if (point.state == SweepState::kFinished) return std::isfinite(point.*metric.value) ? 0 : 1;
  if (point.state == SweepState::kFailed) return 2;
  return point.state == SweepState::kRunning ? 3 : 4;
}

// A JSON text as a person writes it: strings without quotes.
std::string plain(const std::string& json) {
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : json;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_number(double value) {
  return std::isfinite(value) ? json_text(Json(value)) : std::string();
}

std::vector<std::string> keys_of(const SweepRecord& sweep) {
  std::vector<std::string> keys;
  for (const SweepAxis& axis : sweep.axes) {
    keys.insert(keys.end(), axis.keys.begin(), axis.keys.end());
  }
  return keys;
}

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the first `num_left` are set left.
std::string aligned(const std::vector<Row>& rows, size_t num_left) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < num_left ? row[i] + blanks : blanks + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string loss_cell(double loss) { return std::isfinite(loss) ? format_loss(loss) : "-"; }

Row text_row(const SweepPoint& point, const std::string& rank) {
  const bool has_steps = point.steps > 0;
  return {rank,
          point.name,
          loss_cell(point.eval_loss),
          loss_cell(point.best_eval_loss),
          loss_cell(point.train_loss),
          has_steps ? std::to_string(point.steps) : "-",
          has_steps ? std::to_string(point.steps_not_applied) : "-",
          has_steps ? format_count(point.tokens_per_s) : "-",
          has_steps ? format_duration(point.seconds) : "-",
          std::string(sweep_state_name(point.state))};
}

}  // namespace

std::string_view sweep_state_name(SweepState state) {
  switch (state) {
    case SweepState::kWaiting:
      return "waiting";
    case SweepState::kRunning:
      return "begun";
    case SweepState::kFinished:
      return "finished";
    case SweepState::kFailed:
      return "failed";
  }
  return "";
}

const std::vector<SweepMetric>& sweep_metrics() {
  static const std::vector<SweepMetric> metrics{
      {"eval_loss", "held-out loss", false, &SweepPoint::eval_loss},
      {"best_eval_loss", "best held-out loss", false, &SweepPoint::best_eval_loss},
      {"train_loss", "training loss", false, &SweepPoint::train_loss},
      {"tokens_per_s", "tokens/s", true, &SweepPoint::tokens_per_s}};
  return metrics;
}

Result<SweepMetric> find_sweep_metric(const std::string& key) {
  std::vector<std::string> names;
  std::string list;
  for (const SweepMetric& metric : sweep_metrics()) {
    if (metric.key == key) return metric;
    names.push_back(metric.key);
    list += (list.empty() ? "\"" : " | \"") + metric.key + "\"";
  }
  return invalid_argument("metric: expected " + list + ", got \"" + key + "\"; nearest is \"" +
                          nearest_name(key, names) + "\"");
}

Status read_sweep_point(const std::string& run_dir, SweepPoint& point) {
  Curve curve(kCurvePoints);
  std::vector<double> losses;
  std::vector<double> rates;
  point.steps_not_applied = 0;
  point.seconds = 0;
  point.evals.clear();
  LinesFile metrics(join_path(run_dir, "metrics.jsonl"));
  MS_RETURN_IF_ERROR(metrics.scan(false, [&](const Json& json) {
    const Result<StepMetrics> step = step_metrics_from(json, metrics.path());
    if (!step.ok()) return false;
    curve.add(step->step, step->loss);
    losses.push_back(step->loss);
    rates.push_back(step->tokens_per_s);
    if (!step->applied) ++point.steps_not_applied;
    for (const auto& [part, seconds] : step->seconds) point.seconds += seconds;
    return true;
  }));
  LinesFile evals(join_path(run_dir, "evals.jsonl"));
  MS_RETURN_IF_ERROR(evals.scan(false, [&](const Json& json) {
    const Result<EvalMetrics> eval = eval_metrics_from(json, evals.path());
    if (eval.ok()) point.evals.push_back(*eval);
    return eval.ok();
  }));
  point.steps = std::ssize(losses);
  point.train_loss = mean_of_tail(losses);
  point.tokens_per_s = median_of(std::move(rates));
  point.losses = curve.points();
  point.eval_loss = point.best_eval_loss = std::numeric_limits<double>::quiet_NaN();
  for (const EvalMetrics& eval : point.evals) {
    point.eval_loss = eval.loss;
    if (std::isfinite(eval.loss) && !(point.best_eval_loss <= eval.loss))
      point.best_eval_loss = eval.loss;
  }
  return {};
}

std::vector<size_t> ranked(const SweepRecord& sweep) {
  std::vector<size_t> order(sweep.points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    const SweepPoint& a = sweep.points[i];
    const SweepPoint& b = sweep.points[j];
    const int group_a = group_of(a, sweep.metric);
    const int group_b = group_of(b, sweep.metric);
    if (group_a != group_b || group_a != 0) return group_a < group_b;
    const double value_a = a.*sweep.metric.value;
    const double value_b = b.*sweep.metric.value;
    return sweep.metric.higher_is_better ? value_a > value_b : value_a < value_b;
  });
  return order;
}

std::string sweep_text(const SweepRecord& sweep) {
  std::vector<Row> rows{{"rank", "point", "held-out", "best", "training", "steps", "not applied",
                         "tok/s", "time", "state"}};
  std::string errors;
  int64_t rank = 0;
  for (const size_t i : ranked(sweep)) {
    const SweepPoint& point = sweep.points[i];
    const bool has_rank = group_of(point, sweep.metric) == 0;
    rows.push_back(text_row(point, has_rank ? std::to_string(++rank) : ""));
    if (!point.error.empty()) errors += point.name + " failed: " + point.error + "\n";
  }
  return aligned(rows, 2) + errors;
}

Json sweep_json(const SweepRecord& sweep) {
  Json json;
  json["title"] = sweep.title;
  json["recipe"] = sweep.recipe;
  json["metric"] = sweep.metric.key;
  json["state"] = sweep.state;
  json["points"] = Json::array();
  const std::vector<std::string> keys = keys_of(sweep);
  for (const size_t i : ranked(sweep)) {
    const SweepPoint& point = sweep.points[i];
    Json values = Json::object();
    for (size_t k = 0; k < keys.size(); ++k) values[keys[k]] = Json::parse(point.values[k]);
    Json row = {{"point", point.name},
                {"folder", point.folder},
                {"values", std::move(values)},
                {"state", std::string(sweep_state_name(point.state))},
                {"steps", point.steps},
                {"steps_not_applied", point.steps_not_applied},
                {"eval_loss", number(point.eval_loss)},
                {"best_eval_loss", number(point.best_eval_loss)},
                {"train_loss", number(point.train_loss)},
                {"tokens_per_s", number(point.tokens_per_s)},
                {"seconds", number(point.seconds)}};
    if (!point.error.empty()) row["error"] = point.error;
    json["points"].push_back(std::move(row));
  }
  return json;
}

std::string sweep_csv(const SweepRecord& sweep) {
  std::string out = "point";
  for (const std::string& key : keys_of(sweep)) out += "," + csv_cell(key);
  out +=
      ",state,steps,steps_not_applied,eval_loss,best_eval_loss,train_loss,tokens_per_s,seconds,"
      "error\r\n";
  for (const size_t i : ranked(sweep)) {
    const SweepPoint& point = sweep.points[i];
    out += csv_cell(point.name);
    for (const std::string& value : point.values) out += "," + csv_cell(plain(value));
    out += "," + std::string(sweep_state_name(point.state)) + "," + std::to_string(point.steps) +
           "," + std::to_string(point.steps_not_applied);
    for (const double value : {point.eval_loss, point.best_eval_loss, point.train_loss,
                               point.tokens_per_s, point.seconds}) {
      out += "," + csv_number(value);
    }
    out += "," + csv_cell(point.error) + "\r\n";
  }
  return out;
}

}  // namespace mainspring

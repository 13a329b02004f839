#include "mainspring/run/report.h"

#include <algorithm>
#include <cmath>

#include "mainspring/io/json.h"
#include "mainspring/run/page_assets.h"
#include "mainspring/run/page_frame.h"
#include "mainspring/run/records.h"

namespace mainspring {
namespace {

Json evals_json(const std::vector<EvalMetrics>& evals) {
  Json json = Json::array();
  for (const EvalMetrics& eval : evals) json.push_back({eval.step, page_number(eval.loss)});
  return json;
}

Json data_json(const ReportData& data) {
  Json json;
  json["info"] = to_json(data.info, data.now_ns);
  json["state"] = data.state;
  json["started"] = data.started;
  json["written_ms"] = data.now_ns / 1000000;
  json["refresh_s"] = data.refresh_s;
  json["last"] = to_json(data.last);
  json["first_loss"] = page_number(data.first_loss);
  json["learned_tokens"] = page_number(data.learned_tokens);
  json["steps_not_applied"] = data.steps_not_applied;
  json["eta_s"] = data.eta_s;
  json["curves"] = Json::object();
  for (const auto& curve : data.curves) json["curves"][curve.name] = page_curve(curve.points);
  json["evals"] = evals_json(data.evals);
  json["samples"] = Json::array();
  for (const RunSample& sample : data.samples) json["samples"].push_back(to_json(sample));
  json["events"] = Json::array();
  for (const TimedEvent& timed : data.events) {
    Json event = to_json(timed.event, 0);
    event["time"] = timed.time;
    json["events"].push_back(std::move(event));
  }
  return json;
}

}  // namespace

std::string make_report(const ReportData& data) {
  const std::string title = data.info.title.empty() ? "run" : data.info.title;
  const std::string step = std::to_string(data.last.step);
  return framed_page(
      {.title = title + " · step " + step + " · Mainspring",
       .without_script = title + ": step " + step + ", loss " +
                         json_text(page_number(data.last.loss)) +
                         ". The curves need JavaScript; the numbers are in metrics.jsonl.",
       .refresh_s =
           data.state == "running" ? std::max<int64_t>(5, std::llround(data.refresh_s)) : 0,
       .styles = {kPageCss},
       .body = kPageBody,
       .scripts = {kSharedJs, kPageJs}},
      data_json(data));
}

}  // namespace mainspring

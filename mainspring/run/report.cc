#include "mainspring/run/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "mainspring/io/html.h"
#include "mainspring/io/json.h"
#include "mainspring/run/page_assets.h"
#include "mainspring/run/records.h"

namespace mainspring {
namespace {

/// Seven digits are enough for a drawing and halve the page.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return std::strtod(text, nullptr);
}

Json curve_json(const std::vector<Curve::Point>& points) {
  Json steps = Json::array();
  Json means = Json::array();
  Json lows = Json::array();
  Json highs = Json::array();
  bool merged = false;
  for (const Curve::Point& point : points) {
    steps.push_back(point.step);
    means.push_back(number(point.mean));
    lows.push_back(number(point.min));
    highs.push_back(number(point.max));
    merged = merged || point.min != point.max;
  }
  Json json = {{"steps", std::move(steps)}, {"mean", std::move(means)}};
  if (merged) {
    json["min"] = std::move(lows);
    json["max"] = std::move(highs);
  }
  return json;
}

Json evals_json(const std::vector<EvalMetrics>& evals) {
  Json json = Json::array();
  for (const EvalMetrics& eval : evals) json.push_back({eval.step, number(eval.loss)});
  return json;
}

/// JSON that cannot end its script element or open a comment.
std::string script_safe(const Json& json) {
  std::string out;
  for (const char c : json_text(json)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

Json data_json(const ReportData& data) {
  Json json;
  json["info"] = to_json(data.info, data.now_ns);
  json["state"] = data.state;
  json["started"] = data.started;
  json["written_ms"] = data.now_ns / 1000000;
  json["refresh_s"] = data.refresh_s;
  json["last"] = to_json(data.last);
  json["first_loss"] = number(data.first_loss);
  json["learned_tokens"] = number(data.learned_tokens);
  json["steps_not_applied"] = data.steps_not_applied;
  json["eta_s"] = data.eta_s;
  json["curves"] = Json::object();
  for (const auto& curve : data.curves) json["curves"][curve.name] = curve_json(curve.points);
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
  const std::string title = html_text(data.info.title.empty() ? "run" : data.info.title);
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  page +=
      "<title>" + title + " · step " + std::to_string(data.last.step) + " · Mainspring</title>\n";
  if (data.state == "running") {
    const int64_t seconds = std::max<int64_t>(5, std::llround(data.refresh_s));
    page += "<noscript><meta http-equiv=\"refresh\" content=\"" + std::to_string(seconds) +
            "\"></noscript>\n";
  }
  page += "<style>\n";
  page += kPageCss;
  page += "</style>\n</head>\n<body>\n<noscript><p class=\"plain\">" + title + ": step " +
          std::to_string(data.last.step) + ", loss " + json_text(number(data.last.loss)) +
          ". The curves need JavaScript; the numbers are in metrics.jsonl.</p></noscript>\n";
  page += kPageBody;
  page += "<script type=\"application/json\" id=\"run-data\">";
  page += script_safe(data_json(data));
  page += "</script>\n<script>\n";
  page += kPageJs;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace mainspring

#include "mainspring/run/page_frame.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "mainspring/io/html.h"
#include "mainspring/io/json.h"
#include "mainspring/run/page_assets.h"

namespace mainspring {
namespace {

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

}  // namespace

// Seven digits halve the page.
Json page_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return std::strtod(text, nullptr);
}

Json page_curve(const std::vector<Curve::Point>& points) {
  Json steps = Json::array();
  Json means = Json::array();
  Json lows = Json::array();
  Json highs = Json::array();
  bool merged = false;
  for (const Curve::Point& point : points) {
    steps.push_back(point.step);
    means.push_back(page_number(point.mean));
    lows.push_back(page_number(point.min));
    highs.push_back(page_number(point.max));
    merged = merged || point.min != point.max;
  }
  Json json = {{"steps", std::move(steps)}, {"mean", std::move(means)}};
  if (merged) {
    json["min"] = std::move(lows);
    json["max"] = std::move(highs);
  }
  return json;
}

std::string framed_page(const PageFrame& frame, const Json& data) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  page += "<title>" + html_text(frame.title) + "</title>\n";
  if (frame.refresh_s > 0) {
    page += "<noscript><meta http-equiv=\"refresh\" content=\"" + std::to_string(frame.refresh_s) +
            "\"></noscript>\n";
  }
  page += "<style>\n";
  for (const std::string_view style : frame.styles) page += style;
  page += "</style>\n</head>\n<body>\n<noscript><p class=\"plain\">" +
          html_text(frame.without_script) + "</p></noscript>\n";
  page += kPageHead;
  page += frame.body;
  page += "<script type=\"application/json\" id=\"run-data\">";
  page += script_safe(data);
  page += "</script>\n<script>\n";
  for (const std::string_view script : frame.scripts) page += script;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace mainspring

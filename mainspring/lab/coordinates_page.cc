// The coordinate check as a page: for each kind of value a picture of change against width, both
// logarithmic, one line per step.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mainspring/io/html.h"
#include "mainspring/lab/coordinates.h"
#include "mainspring/lab/profile_page.h"

namespace mainspring {
namespace {

constexpr double kWidth = 320;
constexpr double kHeight = 220;
constexpr double kLeft = 52;
constexpr double kRight = 12;
constexpr double kTop = 28;
constexpr double kBottom = 32;

// What the style sheet of profiles has no word for: pictures side by side.
constexpr const char* kStyle =
    ".small { display: grid; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)); gap: "
    "12px; } .line { fill: none; stroke: var(--forward); stroke-width: 2; } .mark { fill: "
    "var(--forward); } .grows .line { stroke: var(--ceiling); } .grows .mark { fill: "
    "var(--ceiling); } pre { overflow-x: auto; font-size: 12px; }";

template <typename... Args>
std::string format(const char* text, Args... args) {
  char buffer[384];
  std::snprintf(buffer, sizeof(buffer), text, args...);
  return buffer;
}

// Ranges of log2 width and log10 change over all tables, so that pictures of one kind compare.
struct Axes {
  double x_low, x_high, y_low, y_high;

  Axes(const std::vector<CoordinateTable>& tables, size_t series) {
    x_low = y_low = INFINITY;
    x_high = y_high = -INFINITY;
    for (const CoordinateTable& table : tables) {
      for (const CoordinateRun& run : table.runs) {
        const double x = std::log2(static_cast<double>(run.width));
        x_low = std::min(x_low, x);
        x_high = std::max(x_high, x);
        for (const double change : run.series[series].change) {
          if (!(change > 0) || !std::isfinite(change)) continue;
          y_low = std::min(y_low, std::log10(change));
          y_high = std::max(y_high, std::log10(change));
        }
      }
    }
    if (!std::isfinite(y_low)) y_low = y_high = 0;
    y_low = std::floor(y_low * 2) / 2;
    y_high = std::max(std::ceil(y_high * 2) / 2, y_low + 0.5);
  }
  double x(double width_log) const {
    return kLeft + (width_log - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  }
  double y(double change_log) const {
    return kTop + (y_high - change_log) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

std::string grid(const CoordinateTable& table, const Axes& axes) {
  std::string out;
  for (const CoordinateRun& run : table.runs) {
    const double x = axes.x(std::log2(static_cast<double>(run.width)));
    out += format("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x,
                  kTop, kHeight - kBottom);
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%lld</text>", x,
                  kHeight - kBottom + 16, static_cast<long long>(run.width));
  }
  for (double d = axes.y_low; d <= axes.y_high; d += 0.5) {
    out += format("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft,
                  kWidth - kRight, axes.y(d), axes.y(d));
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.2g</text>", kLeft - 5,
                  axes.y(d) + 4, std::pow(10.0, d));
  }
  return out;
}

std::string line(const CoordinateTable& table, const Axes& axes, size_t series, size_t step,
                 size_t last) {
  std::string points;
  std::string marks;
  for (const CoordinateRun& run : table.runs) {
    const double change = run.series[series].change[step];
    if (!(change > 0) || !std::isfinite(change)) continue;
    const double x = axes.x(std::log2(static_cast<double>(run.width)));
    const double y = axes.y(std::log10(change));
    points += format("%.1f,%.1f ", x, y);
    marks += format(
        "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>width %lld, step %zu: "
        "%.3g</title></circle>",
        x, y, static_cast<long long>(run.width), step, change);
  }
  // Later steps are stronger.
  const double opacity = 0.25 + 0.75 * static_cast<double>(step) / static_cast<double>(last);
  return format("<g opacity=\"%.2f\"><polyline class=\"line\" points=\"", opacity) + points +
         "\"/>" + marks + "</g>";
}

std::string picture(const std::vector<CoordinateTable>& tables, const CoordinateTable& table,
                    size_t series) {
  const Axes axes(tables, series);
  const CoordinateSeries& kind = table.runs[0].series[series];
  const size_t last = kind.change.size() - 1;
  const double growth = change_growth(table, series, last);
  const bool grows = !(growth <= kMostGrowth);
  std::string out = format(
      "<svg class=\"%s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s: change of %s by "
      "width\">",
      grows ? "grows" : "holds", kWidth, kHeight, html_text(table.parametrisation).c_str(),
      html_text(kind.name).c_str());
  out += format("<text class=\"name\" x=\"%.1f\" y=\"18\">%s: width^%.2f</text>", kLeft,
                html_text(kind.name).c_str(), growth);
  out += grid(table, axes);
  for (size_t step = 1; step <= last; ++step) out += line(table, axes, series, step, last);
  return out + "</svg>";
}

std::string verdict(const CoordinateTable& table) {
  const std::vector<std::string> names = growing_series(table);
  if (names.empty()) return "no change grows with width";
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return "grow with width: " + list;
}

}  // namespace

std::string coordinates_page(const std::vector<CoordinateTable>& tables, const std::string& title,
                             const std::string& command) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>" +
      html_text(title) + ": coordinate check</title><style>" + std::string(kProfileCss) + kStyle +
      "</style></head><body>\n<h1>" + html_text(title) +
      "</h1><p class=\"sub\">Coordinate check: how far training moves each kind of value, by "
      "width. Lines that rise mean that the best learning rate falls with width.</p>\n";
  for (const CoordinateTable& table : tables) {
    out += "<h2>" + html_text(table.parametrisation) + ": " + html_text(verdict(table)) +
           "</h2><div class=\"small\">";
    for (size_t s = 0; s < table.runs[0].series.size(); ++s) out += picture(tables, table, s);
    out += "</div>\n";
  }
  out +=
      "<p class=\"key\">Mean |x - x before training| after each step, later steps stronger; "
      "red: grows faster than " +
      format("width^%.2f", kMostGrowth) + "</p>\n";
  for (const CoordinateTable& table : tables)
    out += "<pre>" + html_text(coordinates_text(table)) + "</pre>\n";
  return out + "<p class=\"sub\"><code>" + html_text(command) + "</code></p>\n</body></html>\n";
}

}  // namespace mainspring

#include "mainspring/lab/coordinates.h"

#include <cmath>
#include <cstdio>

#include "mainspring/base/check.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

std::string cell(double value, int width) {
  char text[32];
  std::snprintf(text, sizeof(text), "%*.3g", width, value);
  return text;
}

using ValuesOf = const std::vector<double>& (*)(const CoordinateSeries&);
const std::vector<double>& size_of(const CoordinateSeries& s) { return s.size; }
const std::vector<double>& change_of(const CoordinateSeries& s) { return s.change; }

std::string header(const CoordinateTable& table, const std::string& name) {
  char text[64];
  std::snprintf(text, sizeof(text), "%-12s %5s", name.c_str(), "step");
  std::string out = text;
  for (const CoordinateRun& run : table.runs) {
    std::snprintf(text, sizeof(text), "%10lld", static_cast<long long>(run.width));
    out += text;
  }
  return out;
}

// `first`: the first step shown.
std::string rows(const CoordinateTable& table, size_t first, ValuesOf values, bool with_growth) {
  std::string out;
  for (size_t s = 0; s < table.runs[0].series.size(); ++s) {
    for (size_t step = first; step < table.runs[0].series[s].size.size(); ++step) {
      char text[64];
      std::snprintf(text, sizeof(text), "%-12s %5zu", table.runs[0].series[s].name.c_str(), step);
      out += text;
      for (const CoordinateRun& run : table.runs) out += cell(values(run.series[s])[step], 10);
      if (with_growth) {
        std::snprintf(text, sizeof(text), "   width^%.2f", change_growth(table, s, step));
        out += text;
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace

double change_growth(const CoordinateTable& table, size_t series, size_t step) {
  MS_CHECK(table.runs.size() > 1, "a growth over fewer than two widths");
  double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;
  for (const CoordinateRun& run : table.runs) {
    const double change = run.series[series].change[step];
    if (!(change > 0)) return change == 0 ? 0.0 : INFINITY;  // a NaN grew beyond all
    const double x = std::log2(static_cast<double>(run.width));
    const double y = std::log2(change);
    n += 1, x_sum += x, y_sum += y, xx += x * x, xy += x * y;
  }
  return (n * xy - x_sum * y_sum) / (n * xx - x_sum * x_sum);
}

std::vector<std::string> growing_series(const CoordinateTable& table) {
  std::vector<std::string> names;
  for (size_t s = 0; s < table.runs[0].series.size(); ++s) {
    const size_t last = table.runs[0].series[s].change.size() - 1;
    if (!(change_growth(table, s, last) <= kMostGrowth))
      names.push_back(table.runs[0].series[s].name);
  }
  return names;
}

std::string coordinates_text(const CoordinateTable& table) {
  return table.parametrisation + "\n" + header(table, "mean |x|") + "\n" +
         rows(table, 0, size_of, false) + header(table, "change") + "   growth\n" +
         rows(table, 1, change_of, true);
}

Json coordinates_json(const std::vector<CoordinateTable>& tables) {
  Json json = Json::array();
  for (const CoordinateTable& table : tables) {
    Json one;
    one["parametrisation"] = table.parametrisation;
    one["growing"] = growing_series(table);
    one["runs"] = Json::array();
    for (const CoordinateRun& run : table.runs) {
      Json entry;
      entry["width"] = run.width;
      entry["losses"] = run.losses;
      for (const CoordinateSeries& series : run.series)
        entry["series"][series.name] = {{"size", series.size}, {"change", series.change}};
      one["runs"].push_back(std::move(entry));
    }
    const auto& kinds = table.runs[0].series;
    for (size_t s = 0; s < kinds.size(); ++s)
      one["growth"][kinds[s].name] = change_growth(table, s, kinds[s].change.size() - 1);
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace mainspring

#include "mainspring/lab/profile_page.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/base/check.h"
#include "mainspring/io/html.h"
#include "mainspring/lab/profile_text.h"
#include "mainspring/lab/roofline_svg.h"

namespace mainspring {
namespace {

template <typename... Args>
std::string format(const char* text, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), text, args...);
  return buffer;
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

std::string bar_cell(double share, const std::string& phase) {
  return format("<td class=\"share\"><i class=\"bar %s\" style=\"width:%.1f%%\"></i>",
                html_text(phase).c_str(), 100 * std::clamp(share, 0.0, 1.0)) +
         percent_text(share) + "</td>";
}

std::string row(const Profile& profile, const ProfileLine& line) {
  std::string out = "<tr><th scope=\"row\">" + html_text(line_title(line)) + "</th>";
  out += bar_cell(profile.share(line.own_ns), line.phase.empty() ? "host" : line.phase);
  out += cell(time_text(static_cast<double>(line.own_ns)));
  out += cell(std::to_string(line.calls));
  if (bound_of(line, profile.ceilings) == Bound::kNone) {
    return out + "<td></td><td></td><td></td><td></td><td></td><td></td>" +
           cell(bound_text(line, profile.ceilings)) + "</tr>\n";
  }
  out += cell(format("%.3g", line.flops)) + cell(format("%.3g", line.bytes));
  out += cell(format("%.1f", line.flops_per_s() / 1e9));
  out += cell(percent_text(line.flops_per_s() / profile.ceilings.flops));
  out += cell(format("%.1f", line.bytes_per_s() / 1e9));
  out += cell(percent_text(line.bytes_per_s() / profile.ceilings.bandwidth));
  return out + cell(bound_text(line, profile.ceilings)) + "</tr>\n";
}

std::string total_row(const Profile& profile, const std::string& name, int64_t ns) {
  return "<tr class=\"total\"><th scope=\"row\">" + name + "</th>" +
         bar_cell(profile.share(ns), "host") + cell(time_text(static_cast<double>(ns))) +
         "<td colspan=\"8\"></td></tr>\n";
}

std::string table(const Profile& profile) {
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>part</th><th>share</th><th>time</th>"
      "<th>calls</th><th>FLOP</th><th>bytes</th><th>GFLOP/s</th><th>of peak</th><th>GB/s</th>"
      "<th>of memory</th><th>bound by</th></tr></thead><tbody>\n";
  for (const ProfileLine& line : profile.lines) out += row(profile, line);
  out += total_row(profile, "unattributed", profile.unattributed_ns);
  out += total_row(profile, "wall", profile.wall_ns);
  return out + "</tbody></table></div>\n";
}

std::string tile(const std::string& value, const std::string& name) {
  return "<div class=\"tile\"><b>" + value + "</b><span>" + name + "</span></div>";
}

std::string tiles(const Profile& profile, const ProfileFacts& facts) {
  const double wall_s = std::max(static_cast<double>(profile.wall_ns) * 1e-9, 1e-9);
  std::string out = "<section class=\"tiles\">";
  out += tile(time_text(static_cast<double>(profile.wall_ns) /
                        static_cast<double>(std::max<int64_t>(facts.num_steps, 1))),
              "a step");
  out += tile(format("%.0f", static_cast<double>(facts.num_tokens) / wall_s), "tokens/s");
  if (facts.model_flops > 0) out += tile(percent_text(facts.mfu), "MFU, measured peak");
  if (facts.nominal_peak > 0) out += tile(percent_text(facts.nominal_mfu), "MFU, nominal peak");
  out += tile(format("%.0f GFLOP/s", profile.ceilings.flops / 1e9), "peak, measured");
  out += tile(format("%.1f GB/s", profile.ceilings.bandwidth / 1e9), "memory, measured");
  return out + "</section>\n";
}

const char* title_of(ProfileBy by) {
  switch (by) {
    case ProfileBy::kOp:
      return "By op";
    case ProfileBy::kLayer:
      return "By layer";
    case ProfileBy::kPath:
      return "By path";
  }
  return "";
}

}  // namespace

std::string profile_page(const std::vector<Profile>& tables, const ProfileFacts& facts,
                         const std::vector<std::string>& advice) {
  MS_CHECK(!tables.empty(), "a page of no profile");
  const std::string title = html_text(facts.title);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>" +
      title + ": profile</title><style>" + std::string(kProfileCss) + "</style></head><body>\n";
  out += "<h1>" + title + "</h1><p class=\"sub\">" + html_text(facts.description) + "</p>\n";
  out += tiles(tables[0], facts);
  out += "<h2>What to change</h2><ul class=\"advice\">";
  for (const std::string& text : advice) out += "<li>" + html_text(text) + "</li>";
  out += "</ul>\n<h2>Roofline</h2>" + roofline_svg(tables[0]);
  out +=
      "<p class=\"key\"><i class=\"forward\"></i>forward <i class=\"recompute\"></i>recompute "
      "<i class=\"backward\"></i>backward <i class=\"update\"></i>update; a dot's area is its "
      "share of the time; above the slope an op's operands came from a cache</p>\n";
  for (const Profile& profile : tables) {
    out += std::string("<h2>") + title_of(profile.by) + "</h2>" + table(profile);
  }
  out += "<p class=\"sub\">" + html_text(facts.mfu_formula) + "</p><p class=\"sub\"><code>" +
         html_text(facts.command) + "</code></p>\n</body></html>\n";
  return out;
}

}  // namespace mainspring

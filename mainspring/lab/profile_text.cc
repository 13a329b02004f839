#include "mainspring/lab/profile_text.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

template <typename... Args>
std::string format(const char* text, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), text, args...);
  return buffer;
}

// The share of the wall time that measuring took: spans, and the costs counted before each run.
double timing_share(const Profile& profile) {
  return profile.share(
             static_cast<int64_t>(static_cast<double>(profile.num_spans) * profile.span_cost_ns)) +
         profile.share(profile.time_of([](const auto& line) { return line.name == "profiler"; }));
}

int64_t median_step_ns(const Profile& profile) {
  if (profile.step_ns.empty()) return 0;
  std::vector<int64_t> steps = profile.step_ns;
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() / 2];
}

std::string head_text(const Profile& profile, const ProfileFacts& facts) {
  const double wall_s = static_cast<double>(profile.wall_ns) * 1e-9;
  std::string out = facts.description + "\n";
  out += format("%lld steps in %.2f s (median %s), %.0f tokens/s",
                static_cast<long long>(facts.num_steps), wall_s,
                time_text(static_cast<double>(median_step_ns(profile))).c_str(),
                static_cast<double>(facts.num_tokens) / wall_s);
  if (facts.num_micro_batches > 0) {
    out += format(", %.0f rows a micro-batch, ", static_cast<double>(profile.rows) /
                                                     static_cast<double>(facts.num_micro_batches)) +
           percent_text(1.0 -
                        static_cast<double>(facts.num_tokens) / static_cast<double>(profile.rows)) +
           " of them padding";
  }
  out += format(
      "\npeak %.0f GFLOP/s, memory %.1f GB/s (both measured); bound by compute above %.0f "
      "FLOPs a byte\n",
      profile.ceilings.flops / 1e9, profile.ceilings.bandwidth / 1e9, profile.ceilings.ridge());
  if (facts.model_flops > 0) {
    out += "MFU " + percent_text(facts.mfu) + " of the measured peak";
    if (facts.nominal_peak > 0) {
      out += ", " + percent_text(facts.nominal_mfu) +
             format(" of the nominal %.0f GFLOP/s", facts.nominal_peak / 1e9);
    }
    out += "; " + facts.mfu_formula + "\n";
  }
  out += "cores: " + percent_text(facts.busy) + " of the threads' time; timing itself took " +
         percent_text(timing_share(profile)) + "\n";
  if (!facts.digest.empty()) out += "state after it " + facts.digest + "\n";
  return out;
}

std::string row_text(const Profile& profile, const ProfileLine& line) {
  std::string out = format(
      "%-40s %9s %8s %9lld %10s", line_title(line).c_str(),
      percent_text(profile.share(line.own_ns)).c_str(),
      time_text(static_cast<double>(line.own_ns)).c_str(), static_cast<long long>(line.calls),
      time_text(static_cast<double>(line.own_ns) / static_cast<double>(line.calls)).c_str());
  if (bound_of(line, profile.ceilings) == Bound::kNone) return out + "\n";
  out += format(" %9.3g %9.1f %8s %8.1f %8s  %s", line.flops, line.flops_per_s() / 1e9,
                percent_text(line.flops_per_s() / profile.ceilings.flops).c_str(),
                line.bytes_per_s() / 1e9,
                percent_text(line.bytes_per_s() / profile.ceilings.bandwidth).c_str(),
                bound_text(line, profile.ceilings).c_str());
  return out + "\n";
}

Json line_json(const Profile& profile, const ProfileLine& line) {
  Json json = {{"name", line.name}};
  if (!line.phase.empty()) json["phase"] = line.phase;
  if (!line.path.empty()) json["path"] = line.path;
  json["calls"] = line.calls;
  json["own_ns"] = line.own_ns;
  if (line.waiting_ns > 0) json["waiting_ns"] = line.waiting_ns;
  json["share"] = profile.share(line.own_ns);
  json["bound"] = bound_text(line, profile.ceilings);
  if (bound_of(line, profile.ceilings) == Bound::kNone) return json;
  json["flops"] = line.flops;
  json["bytes"] = line.bytes;
  json["flops_per_s"] = line.flops_per_s();
  json["of_peak"] = line.flops_per_s() / profile.ceilings.flops;
  json["bytes_per_s"] = line.bytes_per_s();
  json["of_bandwidth"] = line.bytes_per_s() / profile.ceilings.bandwidth;
  return json;
}

}  // namespace

std::string time_text(double ns) {
  if (ns >= 1e9) return format("%.2f s", ns / 1e9);
  if (ns >= 1e6) return format(ns >= 1e8 ? "%.0f ms" : "%.1f ms", ns / 1e6);
  if (ns >= 1e3) return format("%.1f us", ns / 1e3);
  return format("%.0f ns", ns);
}

std::string percent_text(double fraction) {
  const double p = 100 * fraction;
  return format(p >= 9.95 ? "%.0f %%" : p >= 0.995 || p == 0 ? "%.1f %%" : "%.2f %%", p);
}

std::string line_title(const ProfileLine& line) {
  std::string title = line.name;
  if (!line.phase.empty()) title += ", " + line.phase;
  if (!line.path.empty()) title = line.path + ": " + title;
  return title;
}

std::string bound_text(const ProfileLine& line, const Ceilings& ceilings) {
  switch (bound_of(line, ceilings)) {
    case Bound::kCompute:
      return "compute";
    case Bound::kMemory:
      return "memory";
    case Bound::kNone:
      if (line.name == kWaitingLine) return "threads";
      return line.kind == SpanKind::kHost ? "host" : "none";
  }
  return "none";
}

std::string profile_text(const Profile& profile, const ProfileFacts& facts,
                         const std::vector<std::string>& advice) {
  std::string out = head_text(profile, facts);
  out += format("\n%-40s %9s %8s %9s %10s %9s %9s %8s %8s %8s  %s\n", "part", "share", "time",
                "calls", "a call", "FLOP", "GFLOP/s", "of peak", "GB/s", "of mem.", "bound by");
  for (const ProfileLine& line : profile.lines) out += row_text(profile, line);
  out += format("%-40s %9s %8s\n", "unattributed",
                percent_text(profile.share(profile.unattributed_ns)).c_str(),
                time_text(static_cast<double>(profile.unattributed_ns)).c_str());
  out += format("%-40s %9s %8s\n\n", "wall", "100 %",
                time_text(static_cast<double>(profile.wall_ns)).c_str());
  for (const std::string& text : advice) out += "- " + text + "\n";
  return out;
}

Json profile_json(const Profile& profile, const ProfileFacts& facts,
                  const std::vector<std::string>& advice) {
  Json json = {{"title", facts.title},
               {"description", facts.description},
               {"steps", facts.num_steps},
               {"tokens", facts.num_tokens},
               {"learned_tokens", facts.num_learned},
               {"micro_batches", facts.num_micro_batches},
               {"rows", profile.rows},
               {"wall_ns", profile.wall_ns},
               {"unattributed_ns", profile.unattributed_ns},
               {"step_ns", profile.step_ns},
               {"peak_flops", profile.ceilings.flops},
               {"memory_bandwidth", profile.ceilings.bandwidth},
               {"busy", facts.busy},
               {"timing_share", timing_share(profile)},
               {"model_flops", facts.model_flops},
               {"mfu", facts.mfu},
               {"mfu_formula", facts.mfu_formula}};
  if (facts.nominal_peak > 0) {
    json["nominal_peak_flops"] = facts.nominal_peak;
    json["nominal_mfu"] = facts.nominal_mfu;
  }
  json["digest"] = facts.digest;
  json["lines"] = Json::array();
  for (const ProfileLine& line : profile.lines) json["lines"].push_back(line_json(profile, line));
  json["advice"] = advice;
  return json;
}

}  // namespace mainspring

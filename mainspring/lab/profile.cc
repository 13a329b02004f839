#include "mainspring/lab/profile.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mainspring {
namespace {

// "layers.3.mlp" and "model.layers.3.mlp" are of "layers.3".
std::string layer_of(const std::string& path) {
  const size_t at = path.find("layers.");
  if (at == std::string::npos) return path;
  const size_t dot = path.find('.', at + 7);
  return path.substr(at, dot == std::string::npos ? dot : dot - at);
}

ProfileLine line_for(const SpanLabel& label, ProfileBy by) {
  ProfileLine line{.kind = label.kind, .name = label.name, .phase = label.phase};
  if (label.kind != SpanKind::kOp || by == ProfileBy::kOp) return line;
  line.path = by == ProfileBy::kLayer ? layer_of(label.path) : label.path;
  if (by == ProfileBy::kLayer) line.name = "all ops";
  return line;
}

}  // namespace

Bound bound_of(const ProfileLine& line, const Ceilings& ceilings) {
  if (line.flops <= 0 && line.bytes <= 0) return Bound::kNone;
  return line.flops >= ceilings.ridge() * line.bytes ? Bound::kCompute : Bound::kMemory;
}

double of_ceiling(const ProfileLine& line, const Ceilings& ceilings) {
  switch (bound_of(line, ceilings)) {
    case Bound::kCompute:
      return line.flops_per_s() / ceilings.flops;
    case Bound::kMemory:
      return line.bytes_per_s() / ceilings.bandwidth;
    case Bound::kNone:
      return 0.0;
  }
  return 0.0;
}

Profile make_profile(const Timeline& timeline, const Ceilings& ceilings, ProfileBy by) {
  Profile profile{.ceilings = ceilings, .by = by};
  const std::vector<int64_t> own = own_times_ns(timeline);
  std::map<std::tuple<SpanKind, std::string, std::string, std::string>, ProfileLine> lines;
  ProfileLine waiting{.kind = SpanKind::kHost, .name = std::string(kWaitingLine)};
  for (size_t i = 0; i < own.size(); ++i) {
    const Span& span = timeline.spans()[i];
    const SpanLabel& label = timeline.label(span.label);
    const int64_t length = span.end_ns - span.begin_ns;
    if (span.parent < 0) profile.wall_ns += length;
    profile.rows += span.cost.rows;
    if (label.kind == SpanKind::kGroup) {
      if (label.name == "step") profile.step_ns.push_back(length);
      profile.unattributed_ns += own[i];
      continue;
    }
    const ProfileLine fresh = line_for(label, by);
    ProfileLine& line =
        lines.try_emplace({fresh.kind, fresh.name, fresh.phase, fresh.path}, fresh).first->second;
    // An op has no spans in it, so what was waited is its own.
    const int64_t waited = label.kind == SpanKind::kOp ? span.waiting_ns : 0;
    ++line.calls;
    line.flops += span.cost.flops;
    line.bytes += span.cost.bytes;
    line.own_ns += own[i] - waited;
    line.waiting_ns += waited;
    if (waited == 0) continue;
    ++waiting.calls;
    waiting.own_ns += waited;
  }
  for (auto& [key, line] : lines) profile.lines.push_back(std::move(line));
  if (waiting.calls > 0) profile.lines.push_back(std::move(waiting));
  std::stable_sort(profile.lines.begin(), profile.lines.end(),
                   [](const auto& a, const auto& b) { return a.own_ns > b.own_ns; });
  profile.num_spans = static_cast<int64_t>(own.size());
  profile.span_cost_ns = span_cost_ns();
  return profile;
}

}  // namespace mainspring

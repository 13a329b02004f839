#include "mainspring/obs/timeline.h"

#include <algorithm>
#include <chrono>

#include "mainspring/base/check.h"

namespace mainspring {

int64_t Timeline::steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Timeline::Timeline(size_t expected_spans, ClockNs clock) : clock_(clock) {
  spans_.reserve(expected_spans);
}

Timeline::LabelId Timeline::label(SpanKind kind, std::string_view name, std::string_view phase,
                                  std::string_view path) {
  const KeyRef key{kind, name, phase, path};
  const auto found = ids_.find(key);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<LabelId>(labels_.size());
  labels_.push_back({kind, std::string(name), std::string(phase), std::string(path)});
  ids_.emplace(Key(key), id);
  return id;
}

void Timeline::begin_at(int64_t now, LabelId label, const SpanCost& cost) {
  spans_.push_back({.label = label, .parent = open_, .begin_ns = now, .end_ns = -1, .cost = cost});
  open_ = static_cast<int32_t>(spans_.size()) - 1;
}

void Timeline::end_at(int64_t now) {
  MS_CHECK(open_ >= 0, "a span ends that was not begun");
  Span& span = spans_[static_cast<size_t>(open_)];
  span.end_ns = now;
  open_ = span.parent;
}

void Timeline::begin(LabelId label, const SpanCost& cost) { begin_at(clock_(), label, cost); }

void Timeline::end() { end_at(clock_()); }

void Timeline::next(LabelId label, const SpanCost& cost) {
  const int64_t now = clock_();
  end_at(now);
  begin_at(now, label, cost);
}

std::vector<int64_t> own_times_ns(const Timeline& timeline) {
  MS_CHECK(!timeline.has_open_spans(), "own times of a timeline with open spans");
  const std::vector<Span>& spans = timeline.spans();
  std::vector<int64_t> own(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const int64_t length = spans[i].end_ns - spans[i].begin_ns;
    own[i] += length;
    if (spans[i].parent >= 0) own[static_cast<size_t>(spans[i].parent)] -= length;
  }
  return own;
}

double span_cost_ns() {
  constexpr int kBlocks = 21;
  constexpr int kSpans = 200;
  std::vector<double> costs;
  for (int block = 0; block < kBlocks; ++block) {
    Timeline timeline(kSpans + 1);
    const Timeline::LabelId label = timeline.label(SpanKind::kOp, "op");
    timeline.begin(label);
    for (int i = 0; i < kSpans; ++i) timeline.next(label);
    timeline.end();
    const int64_t length = timeline.spans().back().end_ns - timeline.spans().front().begin_ns;
    costs.push_back(static_cast<double>(length) / kSpans);
  }
  std::nth_element(costs.begin(), costs.begin() + kBlocks / 2, costs.end());
  return costs[kBlocks / 2];
}

}  // namespace mainspring

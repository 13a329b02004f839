#include "mainspring/obs/timeline.h"

#include <gtest/gtest.h>

#include <numeric>

namespace mainspring {
namespace {

// Every reading is 10 ns after the last.
int64_t ticking_ns() {
  static int64_t now = 0;
  return now += 10;
}

TEST(Timeline, OwnTimesAddUpToTheOutermostSpans) {
  Timeline timeline(16, &ticking_ns);
  const auto step = timeline.label(SpanKind::kGroup, "step");
  const auto op = timeline.label(SpanKind::kOp, "linear", "forward", "layers.0");
  timeline.begin(step);  // 0
  timeline.begin(op);    // 10
  timeline.next(op);     // 20
  timeline.end();        // 30
  timeline.end();        // 40
  const auto own = own_times_ns(timeline);
  EXPECT_EQ(own, (std::vector<int64_t>{20, 10, 10}));
  EXPECT_EQ(std::accumulate(own.begin(), own.end(), int64_t{0}), 40);
}

TEST(Timeline, ASpanThatFollowsAnotherBeginsWhereThatEnds) {
  Timeline timeline(4, &ticking_ns);
  const auto op = timeline.label(SpanKind::kOp, "add");
  timeline.begin(op, {.flops = 5, .bytes = 7});
  timeline.next(op);
  timeline.end();
  const auto& spans = timeline.spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].end_ns, spans[1].begin_ns);
  EXPECT_EQ(spans[0].cost.flops, 5);
  EXPECT_EQ(spans[1].parent, -1);
}

TEST(Timeline, AnEqualLabelKeepsItsId) {
  Timeline timeline(1);
  const auto a = timeline.label(SpanKind::kOp, "add", "forward", "layers.1");
  EXPECT_EQ(timeline.label(SpanKind::kOp, "add", "forward", "layers.1"), a);
  EXPECT_NE(timeline.label(SpanKind::kOp, "add", "backward", "layers.1"), a);
  EXPECT_NE(timeline.label(SpanKind::kHost, "add", "forward", "layers.1"), a);
  EXPECT_EQ(timeline.label(a).path, "layers.1");
}

TEST(Timeline, AScopeEndsOnceAndWithoutATimelineDoesNothing) {
  Timeline timeline(4, &ticking_ns);
  {
    SpanScope outer(&timeline, SpanKind::kGroup, "outer");
    SpanScope inner(&timeline, SpanKind::kHost, "inner");
    inner.end();
  }
  EXPECT_FALSE(timeline.has_open_spans());
  EXPECT_EQ(timeline.spans()[1].parent, 0);
  SpanScope none(nullptr, SpanKind::kHost, "none");
  EXPECT_EQ(timeline.spans().size(), 2u);
}

TEST(Timeline, GrowsBeyondWhatWasExpected) {
  Timeline timeline(1, &ticking_ns);
  const auto op = timeline.label(SpanKind::kOp, "add");
  for (int i = 0; i < 100; ++i) {
    timeline.begin(op);
    timeline.end();
  }
  EXPECT_EQ(timeline.spans().size(), 100u);
}

TEST(Timeline, ASpanCostsLessThanAKernel) {
  const double ns = span_cost_ns();
  EXPECT_GT(ns, 0);
  EXPECT_LT(ns, 20000);
}

}  // namespace
}  // namespace mainspring

// Two steps of a two-layer model on a clock that ticks, for this folder's tests.
#pragma once

#include "mainspring/obs/timeline.h"

namespace mainspring::test {

/// A prime number of nanoseconds after the last reading, so that no two sums agree by chance.
inline int64_t ticking_ns() {
  static int64_t now = 0;
  return now += 1009;
}

inline Timeline two_steps() {
  Timeline timeline(64, &ticking_ns);
  timeline.begin(timeline.label(SpanKind::kGroup, "profile"));
  for (int step = 0; step < 2; ++step) {
    timeline.begin(timeline.label(SpanKind::kGroup, "step"));
    timeline.begin(timeline.label(SpanKind::kHost, "data"));
    timeline.end();
    timeline.begin(timeline.label(SpanKind::kGroup, "run"), {.rows = 6});
    timeline.begin(timeline.label(SpanKind::kOp, "linear", "forward", "layers.0.mlp"),
                   {.flops = 1000, .bytes = 10});
    timeline.next(timeline.label(SpanKind::kOp, "linear", "forward", "layers.1.mlp"),
                  {.flops = 1000, .bytes = 10});
    timeline.next(timeline.label(SpanKind::kOp, "linear", "recompute", "layers.1.mlp"),
                  {.flops = 1000, .bytes = 10});
    timeline.next(timeline.label(SpanKind::kOp, "rms_norm", "backward", "layers.1"),
                  {.flops = 10, .bytes = 1000});
    timeline.end();
    timeline.end();
    timeline.end();
  }
  timeline.end();
  return timeline;
}

}  // namespace mainspring::test

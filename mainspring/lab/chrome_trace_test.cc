#include "mainspring/lab/chrome_trace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/io/json.h"
#include "mainspring/lab/timeline_for_test.h"

namespace mainspring {
namespace {

int64_t ns_of(const Json& micros) {
  return static_cast<int64_t>(std::llround(micros.get<double>() * 1000));
}

TEST(ChromeTrace, EventsNestAsSpansDoAndKeepTheirNanoseconds) {
  const Timeline timeline = test::two_steps();
  const Json trace = parse_json(chrome_trace(timeline, "a \"run\""), "trace").value();
  const Json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), timeline.spans().size() + 1);  // and the process's name
  EXPECT_EQ(events[0]["args"]["name"], "a \"run\"");
  const int64_t start = timeline.spans()[0].begin_ns;
  for (size_t i = 0; i < timeline.spans().size(); ++i) {
    const Span& span = timeline.spans()[i];
    const Json& event = events[i + 1];
    EXPECT_EQ(event["ph"], "X");
    EXPECT_EQ(event["name"], timeline.label(span.label).name);
    EXPECT_EQ(ns_of(event["ts"]), span.begin_ns - start);
    EXPECT_EQ(ns_of(event["dur"]), span.end_ns - span.begin_ns);
    if (span.parent < 0) continue;
    const Json& parent = events[static_cast<size_t>(span.parent) + 1];
    EXPECT_GE(ns_of(event["ts"]), ns_of(parent["ts"]));
    EXPECT_LE(ns_of(event["ts"]) + ns_of(event["dur"]), ns_of(parent["ts"]) + ns_of(parent["dur"]));
  }
}

TEST(ChromeTrace, AnOpCarriesItsPathAndCost) {
  const Json trace = parse_json(chrome_trace(test::two_steps(), "run"), "trace").value();
  bool found = false;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "rms_norm") continue;
    found = true;
    EXPECT_EQ(event["cat"], "op");
    EXPECT_EQ(event["args"]["path"], "layers.1");
    EXPECT_EQ(event["args"]["bytes"], 1000.0);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace mainspring

// report: the run as one self-contained HTML page.
//
// The one idea: page = fixed style and script (page/page.css, page/page.js, embedded by the build)
// around one block of JSON; all drawing is done by the script, nothing is loaded from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/run/curve.h"
#include "mainspring/run/run_folder.h"

namespace mainspring {

struct TimedEvent {
  RunEvent event;
  std::string time;  // as in events.jsonl
};

/// What the page shows.
struct ReportData {
  RunInfo info;
  std::string state;    // "running", "finished", "stopped", "failed"
  std::string started;  // of the first start; empty if unknown
  int64_t now_ns = 0;
  double refresh_s = 10.0;  // of a running page

  struct NamedCurve {
    std::string name;  // "loss", "lr", "grad_norm", "tokens_per_s"
    std::vector<Curve::Point> points;
  };
  std::vector<NamedCurve> curves;
  std::vector<EvalMetrics> evals;
  StepMetrics last;
  double learned_tokens = 0.0;  // of all steps
  double first_loss = 0.0;
  int64_t steps_not_applied = 0;
  double eta_s = -1.0;  // < 0: unknown
  std::vector<RunSample> samples;
  std::vector<TimedEvent> events;
};

/// The whole page. Any text is safe in it: markup in samples or messages stays text.
std::string make_report(const ReportData& data);

}  // namespace mainspring

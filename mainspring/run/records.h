// records: the lines of metrics.jsonl, evals.jsonl, events.jsonl and samples/, to text and back.
//
// The one idea: the file format in one place, so that what is written and what the page reads
// agree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"
#include "mainspring/run/run_folder.h"

namespace mainspring {

Json to_json(const StepMetrics& metrics);
Json to_json(const EvalMetrics& metrics);
Json to_json(const RunEvent& event, int64_t time_ns);
Json to_json(const RunSample& sample);
Json to_json(const RunInfo& info, int64_t time_ns);

// Back. Errors: invalid argument names the field. Numbers that were not finite come back as NaN.
Result<StepMetrics> step_metrics_from(const Json& json, std::string_view source);
Result<EvalMetrics> eval_metrics_from(const Json& json, std::string_view source);
Result<std::vector<RecipeValue>> recipe_from(const Json& run_info, std::string_view source);

/// "2026-11-30T19:48:05Z".
std::string format_time(int64_t time_ns);

}  // namespace mainspring

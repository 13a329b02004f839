#include "mainspring/lab/chrome_trace.h"

#include <cinttypes>
#include <cstdio>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

// Nanoseconds as microseconds: a double would not keep the last digit of a long trace.
std::string micros(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof(text), "%" PRId64 ".%03d", ns / 1000, static_cast<int>(ns % 1000));
  return text;
}

const char* category(SpanKind kind) {
  switch (kind) {
    case SpanKind::kGroup:
      return "group";
    case SpanKind::kHost:
      return "host";
    case SpanKind::kOp:
      return "op";
  }
  return "";
}

Json args_of(const Span& span, const SpanLabel& label) {
  Json args = Json::object();
  if (!label.phase.empty()) args["phase"] = label.phase;
  if (!label.path.empty()) args["path"] = label.path;
  if (span.cost.flops > 0) args["flops"] = span.cost.flops;
  if (span.cost.bytes > 0) args["bytes"] = span.cost.bytes;
  if (span.cost.rows > 0) args["rows"] = span.cost.rows;
  if (span.waiting_ns > 0) args["waiting_ns"] = span.waiting_ns;
  return args;
}

}  // namespace

std::string chrome_trace(const Timeline& timeline, const std::string& process_name) {
  const Json name = {{"ph", "M"},
                     {"pid", 1},
                     {"tid", 1},
                     {"name", "process_name"},
                     {"args", {{"name", process_name}}}};
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + json_text(name);
  const int64_t start = timeline.spans().empty() ? 0 : timeline.spans().front().begin_ns;
  for (const Span& span : timeline.spans()) {
    const SpanLabel& label = timeline.label(span.label);
    out += ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":" + json_text(Json(label.name)) +
           ",\"cat\":\"" + category(label.kind) + "\",\"ts\":" + micros(span.begin_ns - start) +
           ",\"dur\":" + micros(span.end_ns - span.begin_ns) +
           ",\"args\":" + json_text(args_of(span, label)) + "}";
  }
  return out + "\n]}\n";
}

}  // namespace mainspring

// The spans of a timeline as Chrome's trace events: what Perfetto and chrome://tracing open.
#pragma once

#include <string>

#include "mainspring/obs/timeline.h"

namespace mainspring {

/// JSON text: one complete event ("ph": "X") per span, in microseconds from the first span with
/// three decimals, so that nothing is rounded; args hold the layer path, FLOPs, bytes and rows that
/// are not zero. Source: "Trace Event Format", Google 2016. Precondition: no span is open.
std::string chrome_trace(const Timeline& timeline, const std::string& process_name);

}  // namespace mainspring

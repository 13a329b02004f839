// The HTML around a page's own body: head, title and progress, style, one block of JSON, scripts;
// nothing is loaded from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/io/json_fwd.h"
#include "mainspring/run/curve.h"

namespace mainspring {

struct PageFrame {
  std::string title;           // of the window, not yet safe
  std::string without_script;  // what is said where scripts are off
  int64_t refresh_s = 0;       // > 0: reload so often where scripts are off
  std::vector<std::string_view> styles;
  std::string_view body;  // behind kPageHead
  std::vector<std::string_view> scripts;
};

/// Any text in `data` or `frame` is safe: markup stays text.
std::string framed_page(const PageFrame& frame, const Json& data);

/// A number of seven digits, enough for a drawing; null if it is not finite.
Json page_number(double value);
/// {steps, mean} and, where points were merged, {min, max}.
Json page_curve(const std::vector<Curve::Point>& points);

}  // namespace mainspring

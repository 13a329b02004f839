// The fixed parts of report.html and of a sweep's page; the build makes them from page/.
#pragma once

#include <string_view>

namespace mainspring {

extern const std::string_view kPageHead;  // before each page's own body: title, state, progress
extern const std::string_view kSharedJs;  // before each page's own script

extern const std::string_view kPageBody;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

extern const std::string_view kSweepBody;
extern const std::string_view kSweepCss;  // behind kPageCss
extern const std::string_view kSweepJs;

}  // namespace mainspring

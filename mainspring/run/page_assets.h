// The fixed parts of report.html; the build makes them from page/page.{html,css,js}.
#pragma once

#include <string_view>

namespace mainspring {

extern const std::string_view kPageBody;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace mainspring

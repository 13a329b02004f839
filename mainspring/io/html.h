// Text in HTML pages.
#pragma once

#include <string>

namespace mainspring {

/// Text with <, >, & and quotes made harmless, between tags and in attributes.
std::string html_text(const std::string& text);

}  // namespace mainspring

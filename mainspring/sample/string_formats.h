// The values of `format` that a pattern says exactly.
// Internal to sample/.
#pragma once

#include <string>
#include <vector>

namespace mainspring {

/// Names that pattern_of_format knows.
const std::vector<std::string>& format_names();

/// The pattern of a known name; empty for another. What it lets through has the format; of what
/// has it, left out are the year 0000, leap seconds, more than nine digits of a second, and e-mail
/// addresses with quotes, comments or address literals. Sources: RFC 3339 (date, time, date-time),
/// RFC 9562 (uuid), RFC 5321 and RFC 1123 (email), RFC 2673 (ipv4).
std::string pattern_of_format(const std::string& name);

}  // namespace mainspring

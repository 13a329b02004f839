// A profile as a table for a terminal, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "mainspring/io/json_fwd.h"
#include "mainspring/lab/profile.h"

namespace mainspring {

/// "1.23 ms", "45.6 us".
std::string time_text(double ns);
/// "31 %", "4.2 %", "0.03 %".
std::string percent_text(double fraction);
/// Ops of the kind "linear, backward"; the host's work by its name; with the path if there is one.
std::string line_title(const ProfileLine& line);
/// What a line is bound by: "compute", "memory", "host".
std::string bound_text(const ProfileLine& line, const Ceilings& ceilings);

/// Facts, one line per part with its share, then `unattributed` and the sum, then the advice.
std::string profile_text(const Profile& profile, const ProfileFacts& facts,
                         const std::vector<std::string>& advice);

/// Every figure; times are whole nanoseconds, and the sum of lines[].own_ns and unattributed_ns is
/// wall_ns.
Json profile_json(const Profile& profile, const ProfileFacts& facts,
                  const std::vector<std::string>& advice);

}  // namespace mainspring

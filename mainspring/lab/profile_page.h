// The profile as one HTML page that loads nothing: facts, advice, roofline, table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mainspring/lab/profile.h"

namespace mainspring {

extern const std::string_view kProfileCss;  // page.css, embedded by the build

/// `tables`: profiles of one timeline, such as by op and by layer; the first is drawn.
/// Precondition: there is one.
std::string profile_page(const std::vector<Profile>& tables, const ProfileFacts& facts,
                         const std::vector<std::string>& advice);

}  // namespace mainspring

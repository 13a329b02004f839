// The roofline as an SVG: intensity against FLOP/s, both logarithmic, ops as dots below two
// ceilings.
#pragma once

#include <string>

#include "mainspring/lab/profile.h"

namespace mainspring {

/// One <svg> element with classes for a page's style sheet. A dot's area is the op's share of the
/// time; ops that compute nothing have no place on it.
std::string roofline_svg(const Profile& profile);

}  // namespace mainspring

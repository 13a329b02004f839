// Advice: what to change, derived from a profile's figures and nothing else.
#pragma once

#include <string>
#include <vector>

#include "mainspring/lab/profile.h"

namespace mainspring {

/// One sentence or two each, with the figure it comes from; the costliest first. Never empty: a
/// profile without a finding says what it is bound by. Precondition: `profile` is by op.
std::vector<std::string> advise(const Profile& profile, const ProfileFacts& facts);

}  // namespace mainspring

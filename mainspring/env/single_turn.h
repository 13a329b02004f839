// Single-turn episodes: a prompt, one reply, a verdict.
//
// The one idea: most tasks are a prompt and a pure function of the reply, so an environment gives
// these two and nothing else. Every verdict names the same parts, so that their means over episodes
// are means over the same episodes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "mainspring/env/environment.h"

namespace mainspring {

/// Rewards by part, of one reply.
using Verdict = std::function<std::map<std::string, double>(const Action&)>;

std::unique_ptr<Episode> make_single_turn(Observation prompt, Verdict verdict);
/// A prompt of one user message.
std::unique_ptr<Episode> make_single_turn(std::string user, Verdict verdict);

}  // namespace mainspring

// The messages of the protocol of workers, checked and read.
//
// The one idea: everything that a worker says is checked against what its type promises before
// anybody reads it; a problem is a sentence for people, and the outcome "garbage".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/env/environment.h"
#include "mainspring/io/json.h"

namespace mainspring {

/// What is wrong with a message of type "ready", "observation", "feedback" or "closed"; "" if
/// nothing.
std::string message_problem(const Json& message, std::string_view type);

// Of messages without problem.
std::vector<EnvMessage> messages_of(const Json& message);
std::map<std::string, double> rewards_of(const Json& message);

}  // namespace mainspring

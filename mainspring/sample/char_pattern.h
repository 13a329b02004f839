// Regular expressions as automata over characters: the subset of ECMA-262's that is regular.
//
// The one idea: a pattern is searched for, so texts before and behind it are free unless ^ and $
// forbid them; where a match is certain the rest of the text is free. Internal to sample/.
#pragma once

#include <string>

#include "mainspring/base/status.h"
#include "mainspring/sample/char_automaton.h"

namespace mainspring {

/// Texts in which `pattern` is found. Literals, ., classes, \d \w \s and their complements, escapes
/// (\t \n \v \f \r \0 \cX \xHH \uHHHH \u{H...}), ^ and $ anywhere, groups (also (?:...) and
/// (?<name>...)), |, ?, *, +, {m}, {m,}, {m,n} and their lazy forms. \d is 0-9, \w also A-Z, a-z
/// and _; . is everything but the four line ends, as ECMA-262 has them.
/// Errors: invalid argument, "at position N: ...", for back-references, look-around, word borders,
/// Unicode properties, flags, what is no pattern, and what needs too many states.
Result<CharAutomaton> compile_pattern(const std::string& pattern);

}  // namespace mainspring

// How characters are written within a JSON string: as bytes of UTF-8, or escaped.
// Internal to sample/.
#pragma once

#include <vector>

#include "mainspring/sample/byte_automaton.h"
#include "mainspring/sample/char_set.h"

namespace mainspring {

/// One byte of each set, in order.
using ByteForm = std::vector<ByteSet>;

/// The forms of the set's characters, each character in one way: UTF-8 where JSON needs no escape,
/// else the short escape if there is one, else \u00XX.
std::vector<ByteForm> forms_of(const CharSet& set);

}  // namespace mainspring

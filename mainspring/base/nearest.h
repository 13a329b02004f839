// The nearest valid name, for messages that refuse an unknown one.
//
// The one idea: people mistype by a letter or two, so the name with the smallest edit distance is
// nearly always the one that was meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mainspring {

/// Levenshtein distance: the fewest insertions, deletions and replacements of one byte.
/// Cost: |a| * |b| steps.
size_t edit_distance(std::string_view a, std::string_view b);

/// The name in `known` with the smallest edit distance to `name` (the first of several), "" if
/// `known` is empty.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace mainspring

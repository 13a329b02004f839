// Rewards that compare an answer with the wanted one.
//
// The one idea: pure functions of two texts; what is the answer within a reply is answer_text.h's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mainspring {

struct ExactMatchOptions {
  bool ignores_case = false;    // of ASCII letters
  bool ignores_blanks = false;  // runs of ASCII blanks count as one space
};

/// Both trimmed.
bool exact_match(std::string_view answer, std::string_view wanted,
                 const ExactMatchOptions& options = {});

/// A whole text as a number: "-3", "1,024", "2.50", "1e-3"; surrounding blanks, a leading + or $
/// and a trailing % or full stop are left out. Nothing for all else, inf and nan included.
std::optional<double> read_number(std::string_view text);

/// Both are numbers and |answer - wanted| <= tolerance * max(1, |wanted|). Whole numbers of up to
/// 18 digits are compared exactly when the tolerance is 0.
bool numeric_match(std::string_view answer, std::string_view wanted, double tolerance);

}  // namespace mainspring

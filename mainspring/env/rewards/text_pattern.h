// TextPattern: a regular expression whose cost is bounded.
//
// The one idea: patterns come from users and texts from a policy, so matching must be linear in the
// text and bounded in memory whatever both are. The one door to RE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace re2 {
class RE2;
}

namespace mainspring {

class TextPattern {
 public:
  /// RE2's syntax: Perl's without what needs backtracking (back references, look-around).
  /// Errors: invalid argument with the library's reason.
  static Result<TextPattern> compile(const std::string& pattern);
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;
  ~TextPattern();

  /// The whole text, or some part of it.
  bool matches(std::string_view text) const;
  bool occurs_in(std::string_view text) const;

 private:
  explicit TextPattern(std::unique_ptr<re2::RE2> program);
  std::unique_ptr<re2::RE2> program_;
};

}  // namespace mainspring

// StopText: the text of one sample and where a stop string ends it.
//
// The one idea: a stop string is looked for in the text so far, so token borders do not matter;
// text that could still become a stop string is held back from a reader who must never have to
// unread it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mainspring {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Adds text. Returns what can be shown now. After a stop string was completed the text ends
  /// before it (before the one that begins first, of several that are there) and further text is
  /// dropped.
  std::string push(std::string_view piece);
  /// No more text comes: returns what was held back.
  std::string finish();

  bool is_stopped() const { return is_stopped_; }
  /// All text up to the end or the stop string.
  const std::string& text() const { return text_; }

 private:
  size_t held_back() const;

  std::vector<std::string> stops_;
  std::string text_;
  size_t shown_ = 0;
  bool is_stopped_ = false;
};

}  // namespace mainspring

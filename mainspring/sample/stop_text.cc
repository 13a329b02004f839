#include "mainspring/sample/stop_text.h"

#include <algorithm>

namespace mainspring {

std::string StopText::push(std::string_view piece) {
  if (is_stopped_) return {};
  const size_t before = text_.size();
  text_ += piece;
  size_t cut = std::string::npos;
  for (const std::string& stop : stops_) {
    // An occurrence that was not there before ends in the new piece.
    const size_t from = before >= stop.size() ? before - stop.size() + 1 : 0;
    cut = std::min(cut, text_.find(stop, from));
  }
  if (cut != std::string::npos) {
    is_stopped_ = true;
    text_.resize(cut);
  }
  const size_t end = is_stopped_ ? text_.size() : text_.size() - held_back();
  std::string shown;
  if (end > shown_) shown = text_.substr(shown_, end - shown_);
  shown_ = std::max(shown_, end);
  return shown;
}

std::string StopText::finish() {
  std::string rest = text_.substr(std::min(shown_, text_.size()));
  shown_ = text_.size();
  return rest;
}

size_t StopText::held_back() const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    // The longest end of the text that begins this stop string.
    for (size_t length = std::min(stop.size() - 1, text_.size()); length > held; --length) {
      if (text_.compare(text_.size() - length, length, stop, 0, length) == 0) {
        held = length;
        break;
      }
    }
  }
  return held;
}

}  // namespace mainspring

// Small shared pieces over io/bridge.h. Internal to text/.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/io/bridge.h"

namespace mainspring {

inline MsSlice slice_of(std::string_view text) { return MsSlice{text.data(), text.size()}; }

/// Copies the text and frees the bridge's.
inline std::string take_text(MsText& text) {
  std::string copy;
  if (text.size != 0) copy.assign(text.data, text.size);
  ms_text_free(&text);
  return copy;
}

}  // namespace mainspring

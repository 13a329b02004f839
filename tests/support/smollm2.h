// Where the tests find SmolLM2-135M-Instruct: scripts/get_smollm2 puts it there, scripts/setup
// --dev calls it.
#pragma once

#include <cstdlib>
#include <string>

namespace mainspring::test {

inline std::string smollm2_path() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text != nullptr ? text : "");
  };
  std::string cache = value("MAINSPRING_CACHE");
  if (cache.empty()) {
    const std::string base = value("XDG_CACHE_HOME");
    cache = (base.empty() ? value("HOME") + "/.cache" : base) + "/mainspring";
  }
  return cache + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace mainspring::test

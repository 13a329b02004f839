#include "mainspring/env/env_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

std::string short_number(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end.ptr};
}

template <typename T>
bool parse_all(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && !text.empty();
}

}  // namespace

const std::string* EnvSettingsReader::find(const std::string& name) {
  known_.push_back(name);
  const auto found = settings_.find(name);
  return found == settings_.end() ? nullptr : &found->second;
}

void EnvSettingsReader::refuse(const std::string& name, const std::string& problem) {
  if (!first_refusal_.ok()) return;
  first_refusal_ = invalid_argument("environment \"" + environment_ + "\": setting \"" + name +
                                    "\": " + problem);
}

int64_t EnvSettingsReader::integer(const std::string& name, int64_t fallback, int64_t least,
                                   int64_t most) {
  const std::string* text = find(name);
  if (text == nullptr) return fallback;
  int64_t value = 0;
  if (!parse_all(*text, value) || value < least || value > most) {
    refuse(name, "expected an integer from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", got \"" + *text + "\"");
    return fallback;
  }
  return value;
}

double EnvSettingsReader::number(const std::string& name, double fallback, double least,
                                 double most) {
  const std::string* text = find(name);
  if (text == nullptr) return fallback;
  double value = 0;
  if (!parse_all(*text, value) || !(value >= least && value <= most)) {
    refuse(name, "expected a number from " + short_number(least) + " to " + short_number(most) +
                     ", got \"" + *text + "\"");
    return fallback;
  }
  return value;
}

bool EnvSettingsReader::flag(const std::string& name, bool fallback) {
  const std::string* text = find(name);
  if (text == nullptr) return fallback;
  if (*text != "true" && *text != "false") {
    refuse(name, "expected true or false, got \"" + *text + "\"");
    return fallback;
  }
  return *text == "true";
}

std::string EnvSettingsReader::choice(const std::string& name,
                                      const std::vector<std::string>& choices) {
  const std::string* text = find(name);
  if (text == nullptr) return choices.front();
  if (std::find(choices.begin(), choices.end(), *text) == choices.end()) {
    refuse(name, "expected one of " + joined(choices) + ", got \"" + *text + "\" (nearest: \"" +
                     nearest_name(*text, choices) + "\")");
    return choices.front();
  }
  return *text;
}

std::string EnvSettingsReader::text(const std::string& name, const std::string& fallback) {
  const std::string* text = find(name);
  return text == nullptr ? fallback : *text;
}

std::string EnvSettingsReader::required_text(const std::string& name, std::string_view meaning) {
  const std::string* text = find(name);
  if (text == nullptr || text->empty()) {
    refuse(name, "must be given: " + std::string(meaning));
    return "";
  }
  return *text;
}

Status EnvSettingsReader::finish() {
  for (const auto& [name, value] : settings_) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (known_.empty()) refuse(name, "this environment has no settings");
    refuse(name, "unknown; the nearest is \"" + nearest_name(name, known_) +
                     "\"; known: " + joined(known_));
  }
  return first_refusal_;
}

}  // namespace mainspring

#include "mainspring/env/rewards/text_rewards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "mainspring/env/rewards/answer_text.h"

namespace mainspring {
namespace {

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string normal(std::string_view text, const ExactMatchOptions& options) {
  std::string out;
  for (char c : trimmed(text)) {
    if (options.ignores_case && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (options.ignores_blanks && is_blank(c)) {
      if (out.back() == ' ') continue;  // never first: the text is trimmed
      c = ' ';
    }
    out.push_back(c);
  }
  return out;
}

/// The number's bare text: without what people put around numbers.
std::string bare_number(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (!text.empty() && text.front() == '$') text.remove_prefix(1);
  if (!text.empty() && text.back() == '.') text.remove_suffix(1);
  if (!text.empty() && text.back() == '%') text.remove_suffix(1);
  std::string bare(text);
  bare.erase(std::remove(bare.begin(), bare.end(), ','), bare.end());
  return bare;
}

std::optional<int64_t> read_integer(std::string_view text) {
  const std::string bare = bare_number(text);
  int64_t value = 0;
  const char* end = bare.data() + bare.size();
  const auto [rest, error] = std::from_chars(bare.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace

bool exact_match(std::string_view answer, std::string_view wanted,
                 const ExactMatchOptions& options) {
  return normal(answer, options) == normal(wanted, options);
}

std::optional<double> read_number(std::string_view text) {
  const std::string bare = bare_number(text);
  double value = 0;
  const char* end = bare.data() + bare.size();
  const auto [rest, error] = std::from_chars(bare.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool numeric_match(std::string_view answer, std::string_view wanted, double tolerance) {
  const std::optional<int64_t> whole = read_integer(answer);
  const std::optional<int64_t> wanted_whole = read_integer(wanted);
  if (tolerance == 0 && whole.has_value() && wanted_whole.has_value()) {
    return *whole == *wanted_whole;
  }
  const std::optional<double> value = read_number(answer);
  const std::optional<double> target = read_number(wanted);
  if (!value.has_value() || !target.has_value()) return false;
  return std::abs(*value - *target) <= tolerance * std::max(1.0, std::abs(*target));
}

}  // namespace mainspring

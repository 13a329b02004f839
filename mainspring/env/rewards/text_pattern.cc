#include "mainspring/env/rewards/text_pattern.h"

#include <re2/re2.h>

namespace mainspring {

TextPattern::TextPattern(std::unique_ptr<re2::RE2> program) : program_(std::move(program)) {}
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;
TextPattern::~TextPattern() = default;

Result<TextPattern> TextPattern::compile(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto program = std::make_unique<re2::RE2>(pattern, options);
  if (!program->ok()) {
    return invalid_argument("the pattern \"" + pattern + "\": " + program->error());
  }
  return TextPattern(std::move(program));
}

bool TextPattern::matches(std::string_view text) const {
  return re2::RE2::FullMatch({text.data(), text.size()}, *program_);
}

bool TextPattern::occurs_in(std::string_view text) const {
  return re2::RE2::PartialMatch({text.data(), text.size()}, *program_);
}

}  // namespace mainspring

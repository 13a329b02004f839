#include "mainspring/env/rewards/answer_text.h"

#include <algorithm>

namespace mainspring {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The last run of digits with its sign, thousands' commas and fraction; commas are dropped.
std::optional<std::string> last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  if (end == 0) return std::nullopt;
  size_t begin = end - 1;
  while (begin > 0) {
    const char c = text[begin - 1];
    const bool joins =
        (c == '.' || c == ',') && begin >= 2 && is_digit(text[begin - 2]) && is_digit(text[begin]);
    if (!is_digit(c) && !joins) break;
    --begin;
  }
  // "7-3" is a difference, " -3" is a negative number.
  const bool is_negative =
      begin > 0 && text[begin - 1] == '-' && (begin == 1 || !is_digit(text[begin - 2]));
  std::string number(text.substr(begin, end - begin));
  number.erase(std::remove(number.begin(), number.end(), ','), number.end());
  return (is_negative ? "-" : "") + number;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::optional<std::string> find_answer(std::string_view reply, AnswerPlace place) {
  switch (place) {
    case AnswerPlace::kWhole:
      return std::string(trimmed(reply));
    case AnswerPlace::kLastNumber:
      return last_number(reply);
    case AnswerPlace::kLastLine: {
      const std::string_view text = trimmed(reply);
      if (text.empty()) return std::nullopt;
      const size_t line = text.find_last_of('\n');
      return std::string(trimmed(line == std::string_view::npos ? text : text.substr(line + 1)));
    }
    case AnswerPlace::kTag: {
      constexpr std::string_view kOpen = "<answer>";
      const size_t begin = reply.rfind(kOpen);
      if (begin == std::string_view::npos) return std::nullopt;
      const std::string_view inner = reply.substr(begin + kOpen.size());
      const size_t end = inner.find("</answer>");
      if (end == std::string_view::npos) return std::nullopt;
      return std::string(trimmed(inner.substr(0, end)));
    }
  }
  return std::nullopt;
}

std::optional<std::string> answer_of(const Action& action, AnswerPlace place) {
  if (!action.is_complete) return std::nullopt;
  return find_answer(action.text, place);
}

AnswerPlace read_answer_place(EnvSettingsReader& reader) {
  const std::string name = reader.choice("answer_at", {"whole", "last_number", "last_line", "tag"});
  if (name == "last_number") return AnswerPlace::kLastNumber;
  if (name == "last_line") return AnswerPlace::kLastLine;
  return name == "tag" ? AnswerPlace::kTag : AnswerPlace::kWhole;
}

std::string answer_request(std::string_view what, AnswerPlace place) {
  const std::string thing(what);
  switch (place) {
    case AnswerPlace::kWhole:
      return "Answer with " + thing + " only.";
    case AnswerPlace::kLastNumber:
      return "End with " + thing + ".";
    case AnswerPlace::kLastLine:
      return "Write " + thing + " alone on the last line.";
    case AnswerPlace::kTag:
      return "Put " + thing + " between <answer> and </answer>.";
  }
  return "";
}

}  // namespace mainspring

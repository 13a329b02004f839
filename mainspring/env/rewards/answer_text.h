// The answer within a reply.
//
// The one idea: what counts as the answer is a choice apart from how it is judged, so every reward
// reads replies through one of these.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mainspring/env/env_settings.h"
#include "mainspring/env/environment.h"

namespace mainspring {

/// Without ASCII blanks, tabs and line breaks at both ends.
std::string_view trimmed(std::string_view text);

enum class AnswerPlace {
  kWhole,       // "whole": the reply, trimmed
  kLastNumber,  // "last_number": the last number in it, such as -3, 1,024 or 2.50
  kLastLine,    // "last_line": its last line that is not blank
  kTag,         // "tag": inside the last <answer> ... </answer>
};

/// Nothing where the reply has no such place. Cost: linear in the reply.
std::optional<std::string> find_answer(std::string_view reply, AnswerPlace place);

/// The same of an action; nothing for one that was cut at the limit of new tokens.
std::optional<std::string> answer_of(const Action& action, AnswerPlace place);

/// The setting "answer_at", "whole" by default.
AnswerPlace read_answer_place(EnvSettingsReader& reader);

/// How a prompt asks for it, such as "Answer with the number only.".
std::string answer_request(std::string_view what, AnswerPlace place);

}  // namespace mainspring

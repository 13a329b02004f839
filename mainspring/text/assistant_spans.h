// Finding the assistant's text in a chat whose template carries no {% generation %} marks. Internal
// to text/.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mainspring/text/chat_template.h"

namespace mainspring {

/// Renders any messages, with or without the generation prompt.
using ChatRenderer =
    std::function<Result<std::string>(const Json& messages, bool add_generation_prompt)>;

/// The spans of `full`, which is `render(messages, add_generation_prompt)`; messages is an array of
/// objects. Errors: failed precondition naming the message whose place the template hides; whatever
/// render says.
Result<std::vector<AssistantSpan>> find_assistant_spans(const Json& messages,
                                                        const std::string& full,
                                                        bool add_generation_prompt,
                                                        const ChatRenderer& render);

}  // namespace mainspring

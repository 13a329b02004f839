#include "mainspring/text/chat_template.h"

#include <ctime>
#include <utility>

#include "mainspring/io/bridge.h"
#include "mainspring/io/json.h"
#include "mainspring/text/assistant_spans.h"
#include "mainspring/text/bridge_text.h"

namespace mainspring {
namespace {

/// A message as transformers shows it to templates: null fields are absent, and reasoning is found
/// under the names that templates of different makers read.
Json normalized_message(const Json& message) {
  Json out = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) out[key] = value;
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = out.find(name);
    if (found == out.end()) continue;
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): a new key moves the others
    const Json reasoning = *found;
    if (!out.contains("thinking")) out["thinking"] = reasoning;
    out["reasoning_content"] = reasoning;
    break;
  }
  return out;
}

Result<Json> normalized_messages(const Json& messages) {
  if (!messages.is_array()) {
    return invalid_argument("messages: expected an array, got " + std::string(json_kind(messages)));
  }
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) {
      return invalid_argument("messages[" + std::to_string(i) + "]: expected an object, got " +
                              std::string(json_kind(messages[i])));
    }
    out.push_back(normalized_message(messages[i]));
  }
  return out;
}

Result<RenderedChat> render_normalized(const MsTemplate* handle, const SpecialTokens& special,
                                       const Json& messages, bool add_generation_prompt,
                                       const ChatOptions& options) {
  Json context = Json::object();
  const std::pair<const char*, const std::string*> names[] = {{"bos_token", &special.bos},
                                                              {"eos_token", &special.eos},
                                                              {"pad_token", &special.pad},
                                                              {"unk_token", &special.unk}};
  for (const auto& [name, text] : names) {
    if (!text->empty()) context[name] = *text;
  }
  if (options.variables != nullptr) {
    if (!options.variables->is_object())
      return invalid_argument("template variables: expected an object");
    context.update(*options.variables);
  }
  context["messages"] = messages;
  context["tools"] = options.tools != nullptr ? *options.tools : Json(nullptr);
  if (!context.contains("documents")) context["documents"] = nullptr;
  context["add_generation_prompt"] = add_generation_prompt;

  const int64_t now = options.now_unix_s.value_or(static_cast<int64_t>(std::time(nullptr)));
  MsRendered rendered;
  if (ms_template_render(handle, slice_of(json_text(context)), now, &rendered) != 0) {
    return invalid_argument(ms_bridge_last_error());
  }
  RenderedChat out;
  out.text.assign(rendered.text.data, rendered.text.size);
  for (size_t i = 0; i < rendered.num_spans; ++i) {
    out.spans.push_back({.begin = rendered.spans[2 * i], .end = rendered.spans[2 * i + 1]});
  }
  ms_rendered_free(&rendered);
  return out;
}

/// Names the message of each marked block where there is one block per assistant message.
void number_marked_spans(const Json& messages, std::vector<AssistantSpan>& spans) {
  std::vector<size_t> speakers;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].contains("role") && messages[i]["role"] == "assistant") speakers.push_back(i);
  }
  for (size_t k = 0; k < spans.size(); ++k) {
    spans[k].message =
        speakers.size() == spans.size() ? speakers[k] : AssistantSpan::kUnknownMessage;
  }
}

}  // namespace

ChatTemplate::ChatTemplate(MsTemplate* handle, std::string source, SpecialTokens special)
    : handle_(handle),
      source_(std::move(source)),
      special_(std::move(special)),
      has_generation_marks_(ms_template_has_generation(handle) != 0) {}

ChatTemplate::~ChatTemplate() { ms_template_free(handle_); }

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string_view source,
                                                                  SpecialTokens special) {
  MsTemplate* handle = ms_template_compile(slice_of(source));
  if (handle == nullptr) return invalid_argument(ms_bridge_last_error());
  return std::shared_ptr<const ChatTemplate>(
      new ChatTemplate(handle, std::string(source), std::move(special)));
}

Result<std::string> ChatTemplate::render(const Json& messages, const ChatOptions& options) const {
  MS_ASSIGN_OR_RETURN(const Json normalized, normalized_messages(messages));
  MS_ASSIGN_OR_RETURN(RenderedChat chat, render_normalized(handle_, special_, normalized,
                                                           options.add_generation_prompt, options));
  return std::move(chat.text);
}

Result<RenderedChat> ChatTemplate::render_with_spans(const Json& messages,
                                                     const ChatOptions& options) const {
  MS_ASSIGN_OR_RETURN(const Json normalized, normalized_messages(messages));
  ChatOptions fixed = options;  // one time for all renderings
  if (!fixed.now_unix_s.has_value()) fixed.now_unix_s = static_cast<int64_t>(std::time(nullptr));
  MS_ASSIGN_OR_RETURN(RenderedChat chat, render_normalized(handle_, special_, normalized,
                                                           fixed.add_generation_prompt, fixed));
  if (has_generation_marks_) {
    number_marked_spans(normalized, chat.spans);
    return chat;
  }
  const auto renderer = [&](const Json& some, bool add_generation_prompt) -> Result<std::string> {
    MS_ASSIGN_OR_RETURN(RenderedChat part,
                        render_normalized(handle_, special_, some, add_generation_prompt, fixed));
    return std::move(part.text);
  };
  MS_ASSIGN_OR_RETURN(chat.spans, find_assistant_spans(normalized, chat.text,
                                                       fixed.add_generation_prompt, renderer));
  return chat;
}

Result<ChatTokens> render_chat_with_spans(const Tokenizer& tokenizer,
                                          const ChatTemplate& chat_template, const Json& messages,
                                          const ChatOptions& options) {
  MS_ASSIGN_OR_RETURN(const RenderedChat chat, chat_template.render_with_spans(messages, options));
  MS_ASSIGN_OR_RETURN(EncodedText encoded, tokenizer.encode_with_ranges(chat.text));
  ChatTokens out;
  out.loss_mask.assign(encoded.tokens.size(), 0);
  // Spans and ranges are both in order.
  size_t next = 0;
  for (size_t t = 0; t < encoded.tokens.size() && next < chat.spans.size(); ++t) {
    const ByteRange range = encoded.ranges[t];
    while (next < chat.spans.size() && range.begin >= chat.spans[next].end) ++next;
    if (next < chat.spans.size() && range.end > chat.spans[next].begin) out.loss_mask[t] = 1;
  }
  out.tokens = std::move(encoded.tokens);
  return out;
}

}  // namespace mainspring

// ChatTemplate: messages to the text a model was tuned on, and where in it the assistant speaks.
//
// The one idea: the template itself says which text is the assistant's: by its {% generation %}
// marks, or by what it writes after its own generation prompt. So loss masks need no table of model
// families. Rendering equals transformers' apply_chat_template (minijinja behind io/bridge.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"
#include "mainspring/text/tokenizer.h"

struct MsTemplate;

namespace mainspring {

struct ChatOptions {
  /// Ends the text with the header of a new assistant turn.
  bool add_generation_prompt = false;
  /// A JSON array of tool descriptions; null: none.
  const Json* tools = nullptr;
  /// A JSON object of further variables that the template may read, such as enable_thinking; they
  /// win over the special tokens.
  const Json* variables = nullptr;
  /// What strftime_now shows; unset: the system clock. Training sets it, or its data would depend
  /// on the day.
  std::optional<int64_t> now_unix_s;
};

/// Bytes [begin, end) of a rendered chat that the assistant wrote: the end-of-turn token is inside,
/// a newline after it is not.
struct AssistantSpan {
  static constexpr size_t kUnknownMessage = static_cast<size_t>(-1);

  size_t message =
      kUnknownMessage;  // index into the messages; unknown for marks that are not one per message
  size_t begin = 0;
  size_t end = 0;
};

struct RenderedChat {
  std::string text;
  std::vector<AssistantSpan> spans;  // in order, apart from each other
};

/// Immutable; threads may share it.
class ChatTemplate {
 public:
  /// Errors: invalid argument with the line of a syntax error.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string_view source,
                                                             SpecialTokens special = {});
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// The chat as text. `messages` is a JSON array of objects; fields that are null count as absent.
  /// Errors: invalid argument if the messages are no such array or the template refuses them, with
  /// its words.
  Result<std::string> render(const Json& messages, const ChatOptions& options = {}) const;

  /// The chat as text with the assistant's spans, one per assistant message (generation marks: one
  /// per marked block). Cost: three renderings per assistant message; about ten for one that the
  /// template writes differently once others follow it. Errors: as render; failed precondition,
  /// naming the message, if the template hides where that message is.
  Result<RenderedChat> render_with_spans(const Json& messages,
                                         const ChatOptions& options = {}) const;

  /// Whether the text may depend on the time (the template calls strftime_now).
  bool uses_clock() const { return source_.find("strftime_now") != std::string::npos; }
  const std::string& source() const { return source_; }
  const SpecialTokens& special_tokens() const { return special_; }

 private:
  ChatTemplate(MsTemplate* handle, std::string source, SpecialTokens special);

  MsTemplate* handle_;
  std::string source_;
  SpecialTokens special_;
  bool has_generation_marks_;
};

/// A chat as tokens; loss_mask[t] != 0: token t is the assistant's.
struct ChatTokens {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> loss_mask;  // as long as tokens
};

/// Renders, tokenizes (no special tokens added: the template writes them) and marks every token
/// that overlaps an assistant span. Errors: as render_with_spans and Tokenizer::encode.
Result<ChatTokens> render_chat_with_spans(const Tokenizer& tokenizer,
                                          const ChatTemplate& chat_template, const Json& messages,
                                          const ChatOptions& options = {});

}  // namespace mainspring

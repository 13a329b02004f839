// RowEncoder: one JSON row -> token numbers and a loss mask over them.
//
// The one idea: a row says what it is by its fields: `messages` (chat, optional `tools`), `prompt` and
// `completion` (strings or message lists), `tokens` (optional `mask`) or `text`; if a row has several of
// these, the first in this order counts, unless the format is named. Fields that are not listed are
// metadata and ignored. Not for files: row_file.h finds rows, data_loader.h orders them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"

namespace mainspring {

class ChatTemplate;
class Tokenizer;

enum class RowFormat { kAuto, kChat, kCompletion, kTokens, kText };

/// Which tokens of a row are learned.
enum class LossOn {
  kAssistant,  // assistant turns with their end-of-turn token; completions; all of a text
  kAll,        // every token
};

/// "auto", "chat", "completion", "tokens", "text". Errors: invalid argument with the nearest name.
Result<RowFormat> row_format_from_name(std::string_view name);
std::string_view row_format_name(RowFormat format);
/// "assistant", "all". Errors: invalid argument with the nearest name.
Result<LossOn> loss_on_from_name(std::string_view name);

/// A row as the model will see it. mask[t] != 0: token t is learned (predicted from those before it).
struct EncodedRow {
  RowFormat format = RowFormat::kText;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;  // as long as tokens
};

/// Why a row that reads well is not trained on.
enum class RowUse { kUsed, kEmptyMask, kTooLong };

struct RowEncoderOptions {
  RowFormat format = RowFormat::kAuto;
  LossOn loss_on = LossOn::kAssistant;
  int64_t max_tokens = 0;  // rows with more tokens are not used; 0: no limit
};

/// Threads: encode may be called from several threads at once.
class RowEncoder {
 public:
  using Options = RowEncoderOptions;

  /// `chat_template` may be null: chat rows are then refused. Text and completions get the tokenizer's
  /// begin-of-sequence token in front if it asks for one, and its end-of-sequence token behind.
  RowEncoder(std::shared_ptr<const Tokenizer> tokenizer,
             std::shared_ptr<const ChatTemplate> chat_template, Options options);

  /// `where` ("train.jsonl:12") heads every error. Errors: invalid argument for malformed JSON, a missing
  /// field, a wrong type or role, a token outside the vocabulary, a template that refuses the messages:
  /// with the field and what was expected.
  Result<EncodedRow> encode(std::string_view json_line, std::string_view where) const;

  /// encode's checks of syntax, fields and types without tokenizing.
  Status check(std::string_view json_line, std::string_view where) const;

  RowUse use_of(const EncodedRow& row) const;

  /// The text each token stands for, for people to read.
  std::vector<std::string> pieces(const EncodedRow& row) const;

  const Options& options() const { return options_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;
  Options options_;
};

}  // namespace mainspring

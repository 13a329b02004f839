// RowEncoder: one JSON row -> token numbers and a loss mask over them.
//
// The one idea: what a row is is seen from its fields (row_parser.h); which of its tokens the
// assistant wrote is seen from the chat template itself. Not for files: row_file.h finds rows,
// data_loader.h orders them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/data/row_format.h"

namespace mainspring {

class ChatTemplate;
class Tokenizer;
struct ParsedRow;

/// Which tokens of a row are learned.
enum class LossOn {
  kAssistant,  // assistant turns with their end-of-turn token; completions; all of a text
  kAll,        // every token
};

/// "assistant", "all". Errors: invalid argument with the nearest name.
Result<LossOn> loss_on_from_name(std::string_view name);

/// A row as the model will see it. mask[t] != 0: token t is learned (predicted from those before
/// it).
struct EncodedRow {
  RowFormat format = RowFormat::kText;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;  // as long as tokens
  // Of a pair, whose chosen answer is above; empty otherwise.
  std::vector<int32_t> rejected;
  std::vector<uint8_t> rejected_mask;

  bool is_pair() const { return format == RowFormat::kPreference; }
};

/// Adds the datum of a row, or the two of a pair: a group with the sample's number, chosen first.
void append_datums(const EncodedRow& row, uint64_t sample, uint32_t epoch,
                   std::vector<Datum>& datums);

/// Why a row that reads well is not trained on.
enum class RowUse { kUsed, kEmptyMask, kTooLong };

struct RowEncoderOptions {
  RowFormat format = RowFormat::kAuto;
  LossOn loss_on = LossOn::kAssistant;
  int64_t max_tokens = 0;  // rows with more tokens are not used; 0: no limit
  bool append_eos = true;  // behind texts and completions, if the tokenizer has such a token
  int64_t vocab_size = 0;  // tokens of a `tokens` row are below it; 0: the tokenizer's
  /// What a template that asks for the time is told, so that data does not depend on the day.
  int64_t template_time_unix_s = 1767225600;  // 2026-01-01
};

/// Threads: encode may be called from several threads at once.
class RowEncoder {
 public:
  using Options = RowEncoderOptions;

  /// Either may be null: rows that need it are then refused. Texts and completions get what the
  /// tokenizer puts around a text (a begin-of-sequence token, if it asks for one).
  RowEncoder(std::shared_ptr<const Tokenizer> tokenizer,
             std::shared_ptr<const ChatTemplate> chat_template, Options options);

  /// `where` ("train.jsonl:12") heads every error. Errors: invalid argument for malformed JSON, a
  /// missing field, a wrong type or role, a token outside the vocabulary, a template that refuses
  /// the messages: with the field and what was expected.
  Result<EncodedRow> encode(std::string_view json_line, std::string_view where) const;

  /// encode's checks of syntax, fields and types without tokenizing.
  Status check(std::string_view json_line, std::string_view where) const;

  RowUse use_of(const EncodedRow& row) const;

  /// The text each token stands for, for people to read.
  std::vector<std::string> pieces(const std::vector<int32_t>& tokens) const;

  const Options& options() const { return options_; }

 private:
  Status encode_parsed(const ParsedRow& parsed, EncodedRow& out) const;
  Status append_text(std::string_view text, bool around, bool learned, EncodedRow& out) const;
  Status append_eos(bool learned, EncodedRow& out) const;
  Status encode_chat(const ParsedRow& parsed, EncodedRow& out) const;
  Status encode_tokens(const ParsedRow& parsed, EncodedRow& out) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;
  Options options_;
};

}  // namespace mainspring

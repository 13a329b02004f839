// row_parser: one line of JSON -> a row whose fields have been checked.
//
// The one idea: all that a person can get wrong in a row without a tokenizer is found here, with
// the field and what was expected. A row says what it is by its fields; if it has those of several
// kinds, the first of messages, prompt and completion, tokens, text counts, unless the format is
// named. Other fields are metadata and ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/row_format.h"
#include "mainspring/io/json.h"

namespace mainspring {

/// A checked row; which fields hold something depends on `format`.
struct ParsedRow {
  RowFormat format = RowFormat::kText;
  Json messages;                 // chat; a completion of message lists: prompt, then completion
  size_t first_completion = 0;   // index in messages where the completion begins; chat: 0
  Json tools;                    // an array, or null
  bool is_message_list = false;  // whether `messages` holds the row
  std::string prompt;
  std::string text;  // of a text, or of a completion
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;  // as long as tokens
};

/// The fields that parse_row looks at, of all formats.
const std::vector<std::string>& row_field_names();

/// `where` ("train.jsonl:12") heads every error. Errors: invalid argument.
Result<ParsedRow> parse_row(std::string_view json_line, std::string_view where, RowFormat format);

/// A prompt with two answers, each as a row of format kCompletion or kTokens.
struct ParsedPair {
  ParsedRow chosen;
  ParsedRow rejected;
};

/// A row of preferences: `prompt`, `chosen`, `rejected`, all strings, message lists (then the
/// prompt may be the common beginning of both answers), or lists of token numbers. Errors: as
/// parse_row.
Result<ParsedPair> parse_pair(std::string_view json_line, std::string_view where);

}  // namespace mainspring

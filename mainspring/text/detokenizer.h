// IncrementalDetokenizer: text of tokens as they arrive.
//
// The one idea: text is given out as soon as no later token can change it, so pieces are whole
// UTF-8 characters and their concatenation is exactly Tokenizer::decode of all the tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/text/tokenizer.h"

namespace mainspring {

/// One stream of tokens. Not for several threads at once.
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                                  bool skip_special_tokens = false);

  /// The text that `token` completes; empty while a character is still missing bytes.
  /// Precondition: token >= 0.
  std::string push(int32_t token);
  /// What is left when no more tokens come (U+FFFD for an unfinished character). The next push
  /// starts a new stream.
  std::string finish();

 private:
  std::string push_bytes(int32_t token);
  std::string push_piece(int32_t token);
  std::string decode_after_context(bool keep_last_as_context);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::string pending_bytes_;       // kBytes: an unfinished character
  std::optional<int32_t> context_;  // kPieces: the last token given out, which spaces depend on
  std::vector<int32_t> pending_tokens_;  // kPieces, kWhole: not given out yet
};

/// Appends to `out` the text of `bytes` with U+FFFD for what is not UTF-8, one per maximal broken
/// part as the Unicode standard advises. Unless `is_last`, an unfinished character at the end is
/// left; returns how many bytes were used.
size_t append_utf8_lossy(const std::string& bytes, bool is_last, std::string& out);

}  // namespace mainspring

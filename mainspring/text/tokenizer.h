// Tokenizer: text to token ids and back, as the model's makers defined it.
//
// The one idea: Hugging Face's own tokenizers library does the work behind io/bridge.h, so ids
// equal transformers'; this class owns the handle and turns failures into Status. Not for chat:
// chat_template.h. Not for streaming: detokenizer.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/gguf_tokenizer.h"

struct MsTokenizer;

namespace mainspring {

/// Texts of the special tokens that a model's configuration names; empty: none. Chat templates see
/// them as bos_token, eos_token, pad_token and unk_token.
struct SpecialTokens {
  std::string bos;
  std::string eos;
  std::string pad;
  std::string unk;
};

struct EncodeOptions {
  /// Adds what the tokenizer puts around a text, such as the begin-of-sequence token.
  bool add_special_tokens = false;
  /// Special tokens spelled out in the text become those tokens, as in transformers; false:
  /// ordinary text.
  bool parse_special_tokens = true;
};

/// Bytes [begin, end) of the input that a token came from; empty for added tokens.
struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct EncodedText {
  std::vector<int32_t> tokens;
  std::vector<ByteRange> ranges;  // as long as tokens
};

/// How ids turn into text, as far as streaming cares (detokenizer.h).
enum class DecoderKind {
  kBytes,   // each token is a fixed byte string
  kPieces,  // sentencepiece pieces with byte fallback
  kWhole,   // only a whole sequence decodes
};

/// Immutable; threads may share it.
class Tokenizer {
 public:
  /// From the text of a tokenizer.json. Errors: invalid argument with the reason, or if a special
  /// token is not in the vocabulary.
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view json,
                                                            SpecialTokens special = {});
  /// From the metadata of a GGUF file. Errors: invalid argument for broken fields; unimplemented,
  /// with the known names, for a tokenizer model or pre-tokenizer that is not supported.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufTokenizer& gguf);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Errors: invalid argument if the text is not UTF-8. Cost: about 4 MB/s a thread.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  /// encode with where each token came from; about twice as slow.
  Result<EncodedText> encode_with_ranges(std::string_view text, EncodeOptions options = {}) const;
  /// One result per text, in order; uses all cores.
  Result<std::vector<std::vector<int32_t>>> encode_batch(const std::vector<std::string_view>& texts,
                                                         EncodeOptions options = {}) const;

  /// The text of a token sequence. Ids without a token (padding rows of an embedding) contribute
  /// nothing, bytes that are not UTF-8 become U+FFFD. Errors: invalid argument for a negative id.
  Result<std::string> decode(const std::vector<int32_t>& tokens,
                             bool skip_special_tokens = false) const;

  /// A token as the vocabulary spells it. Errors: not found for an id without a token.
  Result<std::string> token_text(int32_t token) const;
  /// The id of a token's exact spelling.
  std::optional<int32_t> find_token(std::string_view text) const;
  bool is_special(int32_t token) const;
  /// One more than the largest id; a model's embedding may have more rows.
  int32_t vocab_size() const { return vocab_size_; }

  const SpecialTokens& special_tokens() const { return special_; }
  std::optional<int32_t> bos_token() const { return bos_; }
  std::optional<int32_t> eos_token() const { return eos_; }
  std::optional<int32_t> pad_token() const { return pad_; }

  /// The whole tokenizer as a tokenizer.json, for export.
  Result<std::string> to_json() const;

  // For detokenizer.h.
  DecoderKind decoder_kind() const { return decoder_kind_; }
  /// The bytes that a token adds to the text; meaningful for DecoderKind::kBytes.
  std::string token_bytes(int32_t token) const;

 private:
  explicit Tokenizer(MsTokenizer* handle);
  static Result<std::shared_ptr<const Tokenizer>> own(MsTokenizer* handle, SpecialTokens special);

  MsTokenizer* handle_;
  SpecialTokens special_;
  std::optional<int32_t> bos_;
  std::optional<int32_t> eos_;
  std::optional<int32_t> pad_;
  int32_t vocab_size_ = 0;
  DecoderKind decoder_kind_ = DecoderKind::kWhole;
};

}  // namespace mainspring

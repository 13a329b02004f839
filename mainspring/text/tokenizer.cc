#include "mainspring/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "mainspring/base/check.h"
#include "mainspring/io/bridge.h"
#include "mainspring/io/json.h"
#include "mainspring/text/bridge_text.h"

namespace mainspring {
namespace {

uint32_t flags_of(EncodeOptions options) {
  uint32_t flags = 0;
  if (options.add_special_tokens) flags |= MS_ENCODE_ADD_SPECIAL;
  if (!options.parse_special_tokens) flags |= MS_ENCODE_PLAIN_TEXT;
  return flags;
}

std::vector<int32_t> take_tokens(const MsEncoding& encoding) {
  return std::vector<int32_t>(encoding.ids, encoding.ids + encoding.size);
}

Status bridge_error() { return invalid_argument(ms_bridge_last_error()); }

/// The spelling of a token that a GGUF file names by number; empty for none.
std::string spelling(const GgufTokenizer& gguf, int32_t token) {
  if (token < 0 || static_cast<size_t>(token) >= gguf.tokens.size()) return {};
  return gguf.tokens[static_cast<size_t>(token)];
}

std::string gguf_parts(const GgufTokenizer& gguf) {
  Json parts;
  parts["model"] = gguf.model;
  if (!gguf.pre.empty()) parts["pre"] = gguf.pre;
  parts["tokens"] = gguf.tokens;
  parts["token_type"] = gguf.token_types;
  parts["merges"] = gguf.merges;
  parts["scores"] = gguf.scores;
  if (gguf.bos_token >= 0) parts["bos_token_id"] = gguf.bos_token;
  if (gguf.eos_token >= 0) parts["eos_token_id"] = gguf.eos_token;
  if (gguf.unknown_token >= 0) parts["unknown_token_id"] = gguf.unknown_token;
  parts["add_bos_token"] = gguf.add_bos_token;
  parts["add_eos_token"] = gguf.add_eos_token;
  parts["add_space_prefix"] = gguf.add_space_prefix;
  return json_text(parts);
}

}  // namespace

Tokenizer::Tokenizer(MsTokenizer* handle) : handle_(handle) {
  vocab_size_ = static_cast<int32_t>(ms_tokenizer_vocab_size(handle));
  switch (ms_tokenizer_decoder_kind(handle)) {
    case MS_DECODER_BYTES:
      decoder_kind_ = DecoderKind::kBytes;
      break;
    case MS_DECODER_PIECES:
      decoder_kind_ = DecoderKind::kPieces;
      break;
    default:
      decoder_kind_ = DecoderKind::kWhole;
  }
}

Tokenizer::~Tokenizer() { ms_tokenizer_free(handle_); }

Result<std::shared_ptr<const Tokenizer>> Tokenizer::own(MsTokenizer* handle,
                                                        SpecialTokens special) {
  std::shared_ptr<Tokenizer> tokenizer(new Tokenizer(handle));
  const auto resolve = [&](std::string_view name, const std::string& text,
                           std::optional<int32_t>& out) -> Status {
    if (text.empty()) return Status();
    out = tokenizer->find_token(text);
    if (out.has_value()) return Status();
    return invalid_argument("tokenizer: " + std::string(name) + " '" + text +
                            "' is not in the vocabulary");
  };
  MS_RETURN_IF_ERROR(resolve("bos_token", special.bos, tokenizer->bos_));
  MS_RETURN_IF_ERROR(resolve("eos_token", special.eos, tokenizer->eos_));
  MS_RETURN_IF_ERROR(resolve("pad_token", special.pad, tokenizer->pad_));
  tokenizer->special_ = std::move(special);
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view json,
                                                              SpecialTokens special) {
  MsTokenizer* handle = ms_tokenizer_from_json(slice_of(json));
  if (handle == nullptr) return bridge_error();
  return own(handle, std::move(special));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufTokenizer& gguf) {
  MsTokenizer* handle = ms_tokenizer_from_gguf(slice_of(gguf_parts(gguf)));
  if (handle == nullptr) {
    const std::string reason = ms_bridge_last_error();
    if (reason.find("is not supported") != std::string::npos) return unimplemented(reason);
    return invalid_argument(reason);
  }
  return own(handle, SpecialTokens{.bos = spelling(gguf, gguf.bos_token),
                                   .eos = spelling(gguf, gguf.eos_token),
                                   .pad = spelling(gguf, gguf.padding_token),
                                   .unk = spelling(gguf, gguf.unknown_token)});
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  MsEncoding encoding;
  if (ms_tokenizer_encode(handle_, slice_of(text), flags_of(options), &encoding) != 0)
    return bridge_error();
  std::vector<int32_t> tokens = take_tokens(encoding);
  ms_encoding_free(&encoding);
  return tokens;
}

Result<EncodedText> Tokenizer::encode_with_ranges(std::string_view text,
                                                  EncodeOptions options) const {
  if (text.size() > std::numeric_limits<uint32_t>::max()) {
    return invalid_argument("tokenizer: a text of " + std::to_string(text.size()) +
                            " bytes; at most 4 GiB");
  }
  MsEncoding encoding;
  const uint32_t flags = flags_of(options) | MS_ENCODE_WITH_RANGES;
  if (ms_tokenizer_encode(handle_, slice_of(text), flags, &encoding) != 0) return bridge_error();
  EncodedText out;
  out.tokens = take_tokens(encoding);
  out.ranges.resize(encoding.size);
  for (size_t i = 0; i < encoding.size; ++i) out.ranges[i] = {encoding.begins[i], encoding.ends[i]};
  ms_encoding_free(&encoding);
  return out;
}

Result<std::vector<std::vector<int32_t>>> Tokenizer::encode_batch(
    const std::vector<std::string_view>& texts, EncodeOptions options) const {
  std::vector<MsSlice> slices(texts.size());
  std::transform(texts.begin(), texts.end(), slices.begin(), slice_of);
  std::vector<MsEncoding> encodings(texts.size());
  if (ms_tokenizer_encode_batch(handle_, slices.data(), slices.size(), flags_of(options),
                                encodings.data()) != 0) {
    return bridge_error();
  }
  std::vector<std::vector<int32_t>> out;
  out.reserve(encodings.size());
  for (MsEncoding& encoding : encodings) {
    out.push_back(take_tokens(encoding));
    ms_encoding_free(&encoding);
  }
  return out;
}

Result<std::string> Tokenizer::decode(const std::vector<int32_t>& tokens,
                                      bool skip_special_tokens) const {
  std::vector<uint32_t> ids;
  ids.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (token < 0)
      return invalid_argument("tokenizer: token id " + std::to_string(token) + " is negative");
    ids.push_back(static_cast<uint32_t>(token));
  }
  MsText text;
  if (ms_tokenizer_decode(handle_, ids.data(), ids.size(), skip_special_tokens ? 1 : 0, &text) !=
      0) {
    return bridge_error();
  }
  return take_text(text);
}

Result<std::string> Tokenizer::token_text(int32_t token) const {
  MsText text;
  if (token < 0 || ms_tokenizer_token(handle_, static_cast<uint32_t>(token), &text) != 0) {
    return not_found("tokenizer: no token has id " + std::to_string(token) +
                     "; the vocabulary ends at " + std::to_string(vocab_size_));
  }
  return take_text(text);
}

std::optional<int32_t> Tokenizer::find_token(std::string_view text) const {
  const int64_t id = ms_tokenizer_id(handle_, slice_of(text));
  if (id < 0) return std::nullopt;
  return static_cast<int32_t>(id);
}

bool Tokenizer::is_special(int32_t token) const {
  return token >= 0 && ms_tokenizer_is_special(handle_, static_cast<uint32_t>(token)) != 0;
}

Result<std::string> Tokenizer::to_json() const {
  MsText text;
  if (ms_tokenizer_to_json(handle_, &text) != 0) return internal_error(ms_bridge_last_error());
  return take_text(text);
}

std::string Tokenizer::token_bytes(int32_t token) const {
  MS_CHECK(token >= 0, std::to_string(token));
  MsText text;
  const int failed = ms_tokenizer_token_bytes(handle_, static_cast<uint32_t>(token), &text);
  MS_CHECK(failed == 0, ms_bridge_last_error());
  return take_text(text);
}

}  // namespace mainspring

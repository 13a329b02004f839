#include "mainspring/text/detokenizer.h"

#include <utility>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What a first byte asks for: how many bytes follow, and the range of the second one (RFC 3629's
/// table, which rules out overlong forms, surrogates and code points past U+10FFFF).
struct Lead {
  size_t followers;
  uint8_t second_low;
  uint8_t second_high;
};

bool lead_of(uint8_t byte, Lead& lead) {
  if (byte >= 0xC2 && byte <= 0xDF)
    lead = {1, 0x80, 0xBF};
  else if (byte == 0xE0)
    lead = {2, 0xA0, 0xBF};
  else if (byte == 0xED)
    lead = {2, 0x80, 0x9F};
  else if (byte >= 0xE1 && byte <= 0xEF)
    lead = {2, 0x80, 0xBF};
  else if (byte == 0xF0)
    lead = {3, 0x90, 0xBF};
  else if (byte >= 0xF1 && byte <= 0xF3)
    lead = {3, 0x80, 0xBF};
  else if (byte == 0xF4)
    lead = {3, 0x80, 0x8F};
  else
    return false;
  return true;
}

bool is_byte_piece(const std::string& piece) {
  const auto is_hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
  };
  return piece.size() == 6 && piece.starts_with("<0x") && piece[5] == '>' && is_hex(piece[3]) &&
         is_hex(piece[4]);
}

}  // namespace

size_t append_utf8_lossy(const std::string& bytes, bool is_last, std::string& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const auto first = static_cast<uint8_t>(bytes[at]);
    if (first < 0x80) {
      out.push_back(bytes[at++]);
      continue;
    }
    Lead lead;
    if (!lead_of(first, lead)) {
      out += kReplacement;
      ++at;
      continue;
    }
    size_t have = 0;  // followers that fit
    while (have < lead.followers && at + 1 + have < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[at + 1 + have]);
      const uint8_t low = have == 0 ? lead.second_low : 0x80;
      const uint8_t high = have == 0 ? lead.second_high : 0xBF;
      if (byte < low || byte > high) break;
      ++have;
    }
    if (have == lead.followers) {
      out.append(bytes, at, 1 + have);
    } else if (at + 1 + have == bytes.size() && !is_last) {
      return at;
    } else {
      out += kReplacement;
    }
    at += 1 + have;
  }
  return at;
}

IncrementalDetokenizer::IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                                               bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string IncrementalDetokenizer::push(int32_t token) {
  MS_CHECK(token >= 0, std::to_string(token));
  if (skip_special_tokens_ && tokenizer_->is_special(token)) return {};
  switch (tokenizer_->decoder_kind()) {
    case DecoderKind::kBytes:
      return push_bytes(token);
    case DecoderKind::kPieces:
      return push_piece(token);
    case DecoderKind::kWhole:
      break;
  }
  pending_tokens_.push_back(token);
  return {};
}

std::string IncrementalDetokenizer::push_bytes(int32_t token) {
  pending_bytes_ += tokenizer_->token_bytes(token);
  std::string out;
  const size_t used = append_utf8_lossy(pending_bytes_, /*is_last=*/false, out);
  pending_bytes_.erase(0, used);
  return out;
}

std::string IncrementalDetokenizer::push_piece(int32_t token) {
  const Result<std::string> piece = tokenizer_->token_text(token);
  if (!piece.ok() || piece->empty()) return {};  // an id without a token adds nothing
  pending_tokens_.push_back(token);
  // A run of byte tokens is read as a whole: one broken byte in it turns all of it into U+FFFD.
  if (is_byte_piece(*piece)) return {};
  return decode_after_context(/*keep_last_as_context=*/true);
}

/// Spaces at the start of a text are dropped, so pending tokens are decoded behind the token before
/// them, whose own text is then taken off.
std::string IncrementalDetokenizer::decode_after_context(bool keep_last_as_context) {
  std::vector<int32_t> window;
  if (context_.has_value()) window.push_back(*context_);
  const Result<std::string> known = tokenizer_->decode(window);
  window.insert(window.end(), pending_tokens_.begin(), pending_tokens_.end());
  const Result<std::string> text = tokenizer_->decode(window);
  MS_CHECK(known.ok() && text.ok(), "ids were checked");
  MS_CHECK(text->starts_with(*known), "a decoder rewrote '" + *known + "' to '" + *text + "'");
  context_ = keep_last_as_context ? std::optional<int32_t>(pending_tokens_.back()) : std::nullopt;
  pending_tokens_.clear();
  return text->substr(known->size());
}

std::string IncrementalDetokenizer::finish() {
  std::string out;
  append_utf8_lossy(pending_bytes_, /*is_last=*/true, out);
  pending_bytes_.clear();
  if (!pending_tokens_.empty()) out += decode_after_context(/*keep_last_as_context=*/false);
  context_.reset();
  return out;
}

}  // namespace mainspring

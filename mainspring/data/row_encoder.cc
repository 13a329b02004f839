#include "mainspring/data/row_encoder.h"

#include <algorithm>
#include <limits>

#include "mainspring/base/nearest.h"
#include "mainspring/data/row_parser.h"
#include "mainspring/text/chat_template.h"
#include "mainspring/text/tokenizer.h"

namespace mainspring {
namespace {

/// Marks the tokens that overlap bytes [begin, end). Tokens come in the order of their bytes.
void mark(const std::vector<ByteRange>& ranges, size_t begin, size_t end,
          std::vector<uint8_t>& mask) {
  for (size_t t = 0; t < ranges.size(); ++t) {
    if (ranges[t].begin < end && ranges[t].end > begin) mask[t] = 1;
  }
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

}  // namespace

Result<LossOn> loss_on_from_name(std::string_view name) {
  if (name == "assistant") return LossOn::kAssistant;
  if (name == "all") return LossOn::kAll;
  return invalid_argument("expected assistant or all, got '" + std::string(name) +
                          "' (nearest: " + nearest_name(name, {"assistant", "all"}) + ")");
}

RowEncoder::RowEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                       std::shared_ptr<const ChatTemplate> chat_template, Options options)
    : tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      options_(options) {}

void append_datums(const EncodedRow& row, uint64_t sample, uint32_t epoch,
                   std::vector<Datum>& datums) {
  const size_t first = datums.size();
  datums.push_back(make_next_token_datum(row.tokens, row.mask));
  if (row.is_pair()) {
    datums.push_back(make_next_token_datum(row.rejected, row.rejected_mask));
    datums[first].role = kChosen;
    datums[first + 1].role = kRejected;
  }
  for (size_t i = first; i < datums.size(); ++i) {
    if (row.is_pair()) datums[i].group = static_cast<int64_t>(sample);
    datums[i].sample_index = sample;
    datums[i].epoch = epoch;
  }
}

Status RowEncoder::check(std::string_view json_line, std::string_view where) const {
  if (options_.format == RowFormat::kPreference) return parse_pair(json_line, where).status();
  return parse_row(json_line, where, options_.format).status();
}

Result<EncodedRow> RowEncoder::encode(std::string_view json_line, std::string_view where) const {
  EncodedRow out;
  if (options_.format == RowFormat::kPreference) {
    MS_ASSIGN_OR_RETURN(const ParsedPair pair, parse_pair(json_line, where));
    EncodedRow rejected;
    MS_RETURN_IF_ERROR(encode_parsed(pair.chosen, out).with_context(where));
    MS_RETURN_IF_ERROR(encode_parsed(pair.rejected, rejected).with_context(where));
    out.format = RowFormat::kPreference;
    out.rejected = std::move(rejected.tokens);
    out.rejected_mask = std::move(rejected.mask);
    return out;
  }
  MS_ASSIGN_OR_RETURN(const ParsedRow parsed, parse_row(json_line, where, options_.format));
  out.format = parsed.format;
  MS_RETURN_IF_ERROR(encode_parsed(parsed, out).with_context(where));
  return out;
}

Status RowEncoder::encode_parsed(const ParsedRow& parsed, EncodedRow& out) const {
  Status status;
  if (parsed.format == RowFormat::kTokens) {
    status = encode_tokens(parsed, out);
  } else if (tokenizer_ == nullptr) {
    status = failed_precondition("a row of text needs a tokenizer");
  } else if (parsed.is_message_list) {
    status = encode_chat(parsed, out);
  } else if (parsed.format == RowFormat::kCompletion) {
    // Apart from each other, so that the border is a border between tokens whatever the texts are.
    status = append_text(parsed.prompt, true, options_.loss_on == LossOn::kAll, out);
    if (status.ok()) status = append_text(parsed.text, false, true, out);
    if (status.ok()) status = append_eos(true, out);
  } else {
    status = append_text(parsed.text, true, true, out);
    if (status.ok()) status = append_eos(true, out);
  }
  return status;
}

Status RowEncoder::append_text(std::string_view text, bool around, bool learned,
                               EncodedRow& out) const {
  MS_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                      tokenizer_->encode(text, {.add_special_tokens = around}));
  out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
  out.mask.resize(out.tokens.size(), learned ? 1 : 0);
  return {};
}

Status RowEncoder::append_eos(bool learned, EncodedRow& out) const {
  const std::optional<int32_t> eos = tokenizer_->eos_token();
  if (!options_.append_eos || !eos) return {};
  if (!out.tokens.empty() && out.tokens.back() == *eos) return {};
  out.tokens.push_back(*eos);
  out.mask.push_back(learned ? 1 : 0);
  return {};
}

Status RowEncoder::encode_chat(const ParsedRow& parsed, EncodedRow& out) const {
  if (chat_template_ == nullptr) {
    return failed_precondition("messages need a chat template; the model has none");
  }
  ChatOptions options;
  options.now_unix_s = options_.template_time_unix_s;
  if (!parsed.tools.is_null()) options.tools = &parsed.tools;
  MS_ASSIGN_OR_RETURN(const RenderedChat chat,
                      chat_template_->render_with_spans(parsed.messages, options));
  MS_ASSIGN_OR_RETURN(EncodedText encoded, tokenizer_->encode_with_ranges(chat.text));
  out.tokens = std::move(encoded.tokens);
  if (options_.loss_on == LossOn::kAll) {
    out.mask.assign(out.tokens.size(), 1);
    return {};
  }
  out.mask.assign(out.tokens.size(), 0);
  // Spans of a template with generation marks do not name their message: those of the completion
  // are the ones after the text that the prompt alone gives.
  size_t completion_begin = 0;
  const bool unnamed = std::any_of(
      chat.spans.begin(), chat.spans.end(),
      [](const AssistantSpan& span) { return span.message == AssistantSpan::kUnknownMessage; });
  if (parsed.first_completion > 0 && unnamed) {
    Json prompt = Json::array();
    for (size_t i = 0; i < parsed.first_completion; ++i) prompt.push_back(parsed.messages[i]);
    MS_ASSIGN_OR_RETURN(const std::string text, chat_template_->render(prompt, options));
    completion_begin = common_prefix(text, chat.text);
  }
  for (const AssistantSpan& span : chat.spans) {
    const bool learned = span.message == AssistantSpan::kUnknownMessage
                             ? span.begin >= completion_begin
                             : span.message >= parsed.first_completion;
    if (learned) mark(encoded.ranges, span.begin, span.end, out.mask);
  }
  return {};
}

Status RowEncoder::encode_tokens(const ParsedRow& parsed, EncodedRow& out) const {
  const int64_t limit = options_.vocab_size > 0 ? options_.vocab_size
                        : tokenizer_ != nullptr ? int64_t{tokenizer_->vocab_size()}
                                                : std::numeric_limits<int64_t>::max();
  for (size_t t = 0; t < parsed.tokens.size(); ++t) {
    if (parsed.tokens[t] >= limit) {
      return invalid_argument("tokens[" + std::to_string(t) + "]: expected a token number below " +
                              std::to_string(limit) + ", got " + std::to_string(parsed.tokens[t]));
    }
  }
  out.tokens = parsed.tokens;
  out.mask = parsed.mask;
  if (options_.loss_on == LossOn::kAll) out.mask.assign(out.tokens.size(), 1);
  return {};
}

RowUse RowEncoder::use_of(const EncodedRow& row) const {
  const auto longest = static_cast<int64_t>(std::max(row.tokens.size(), row.rejected.size()));
  if (options_.max_tokens > 0 && longest > options_.max_tokens) return RowUse::kTooLong;
  // Nothing comes before the first token, so it cannot be learned.
  const auto learns = [](const std::vector<uint8_t>& mask) {
    return mask.size() > 1 &&
           std::any_of(mask.begin() + 1, mask.end(), [](uint8_t m) { return m != 0; });
  };
  const bool is_used = learns(row.mask) && (!row.is_pair() || learns(row.rejected_mask));
  return is_used ? RowUse::kUsed : RowUse::kEmptyMask;
}

std::vector<std::string> RowEncoder::pieces(const std::vector<int32_t>& tokens) const {
  std::vector<std::string> out;
  out.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (tokenizer_ == nullptr) {
      out.push_back("[" + std::to_string(token) + "]");
      continue;
    }
    if (tokenizer_->decoder_kind() == DecoderKind::kBytes && !tokenizer_->is_special(token)) {
      out.push_back(tokenizer_->token_bytes(token));
      continue;
    }
    Result<std::string> text = tokenizer_->token_text(token);
    out.push_back(text.ok() ? *text : "[" + std::to_string(token) + "]");
  }
  return out;
}

}  // namespace mainspring

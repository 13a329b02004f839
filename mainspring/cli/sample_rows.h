// The rows of `mainspring sample` and `mainspring logprobs`: JSON lines in, JSON lines out.
//
// The one idea: a line becomes a checked request, or a refusal that names file, line and field; a
// result becomes one line whose numbers read back to the same f32. Nothing here computes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"
#include "mainspring/models/model_text.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/sample/scorer.h"

namespace mainspring::cli {

/// What rows are read with.
struct RowContext {
  const ModelText* text = nullptr;
  int64_t vocabulary = 0;
  std::vector<int32_t> eos_tokens;  // end a sample unless the row says "ignore_eos": true
  SamplingParams defaults;          // for fields that a row does not have
  int32_t adapter = SampleRequest::kBaseOnly;
};

/// A row to sample from. `id` is the row's own (any JSON), null if it has none.
struct SampleRow {
  std::string where;  // "prompts.jsonl:3"
  Json id;
  SampleRequest request;  // place: the row's number
};

/// Reads {"prompt": text | "messages": [...] | "tokens": [...], "max_tokens", "temperature",
/// "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
/// "json_schema", "seed", "n", "stop", "stop_tokens", "ignore_eos", "top_logprobs",
/// "prompt_logprobs", "tools", "id"}; other fields are metadata unless they look like a mistyped
/// one. `where` ("prompts.jsonl:3") heads every error. Errors: invalid argument with the field.
Result<SampleRow> parse_sample_row(std::string_view line, std::string_view where, int64_t number,
                                   const RowContext& context);

/// One line of `mainspring sample`'s output.
std::string format_sample(const SampleRow& row, int32_t sample, const SampleResult& result);

/// Whether a line is the one that format_sample gives for this sample, as far as the request
/// decides it (row, sample, prompt_tokens and seed). Errors: invalid argument with what differs.
Status check_kept_sample(std::string_view line, std::string_view where, const SampleRow& row,
                         int32_t sample, uint64_t seed);

/// A row to score.
struct TokensRow {
  std::string where;
  Json id;
  ScoreRow row;
};

/// Reads {"tokens": [...], "id"}; other fields are metadata.
Result<TokensRow> parse_tokens_row(std::string_view line, std::string_view where, int32_t adapter);

/// {"id", "tokens", "logprobs"}: the first entry of logprobs is null.
std::string format_scores(const TokensRow& row, const std::vector<float>& logprobs);

}  // namespace mainspring::cli

#include "mainspring/cli/sample_rows.h"

#include <array>
#include <cmath>
#include <limits>

#include "mainspring/cli/field_names.h"

namespace mainspring::cli {
namespace {

const std::vector<std::string>& known_fields() {
  static const std::vector<std::string> fields = {"id",
                                                  "prompt",
                                                  "messages",
                                                  "tokens",
                                                  "tools",
                                                  "max_tokens",
                                                  "temperature",
                                                  "top_k",
                                                  "top_p",
                                                  "min_p",
                                                  "seed",
                                                  "n",
                                                  "stop",
                                                  "stop_tokens",
                                                  "ignore_eos",
                                                  "top_logprobs",
                                                  "prompt_logprobs",
                                                  "repetition_penalty",
                                                  "presence_penalty",
                                                  "frequency_penalty",
                                                  "json_schema"};
  return fields;
}

/// What other engines call a setting that is called otherwise here, or is not there.
struct ForeignField {
  std::string_view name;
  std::string_view ours;  // empty: not supported
};
constexpr ForeignField kForeignFields[] = {{"max_new_tokens", "max_tokens"},
                                           {"max_completion_tokens", "max_tokens"},
                                           {"n_predict", "max_tokens"},
                                           {"num_predict", "max_tokens"},
                                           {"num_return_sequences", "n"},
                                           {"stop_token_ids", "stop_tokens"},
                                           {"stop_strings", "stop"},
                                           {"prompt_token_ids", "tokens"},
                                           {"input_ids", "tokens"},
                                           {"repeat_penalty", "repetition_penalty"},
                                           {"logit_bias", ""},
                                           {"min_tokens", ""},
                                           {"min_new_tokens", ""},
                                           {"typical_p", ""},
                                           {"best_of", ""},
                                           {"num_beams", ""},
                                           {"response_format", ""},
                                           {"guided_json", "json_schema"},
                                           {"add_special_tokens", ""},
                                           {"no_repeat_ngram_size", ""}};

/// A field that is not known is metadata, unless it is nearly the name of one or another engine's
/// name of a setting.
Status check_field_names(const JsonObject& row) {
  for (const std::string& key : row.keys()) {
    for (const ForeignField& foreign : kForeignFields) {
      if (key != foreign.name) continue;
      if (foreign.ours.empty()) return row.error(key, "is not supported");
      return row.error(key, "no such field, it is called \"" + std::string(foreign.ours) + "\"");
    }
  }
  return check_near_names(row, known_fields());
}

Result<std::vector<int32_t>> read_tokens(const JsonObject& row, std::string_view key) {
  MS_ASSIGN_OR_RETURN(const std::vector<int64_t> values, row.get_ints(key));
  std::vector<int32_t> tokens;
  tokens.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > std::numeric_limits<int32_t>::max()) {
      return row.error(key, "token " + std::to_string(i) + " is " + std::to_string(values[i]) +
                                ", expected a token number");
    }
    tokens.push_back(static_cast<int32_t>(values[i]));
  }
  return tokens;
}

Result<int32_t> read_int32(const JsonObject& row, std::string_view key, int32_t fallback) {
  MS_ASSIGN_OR_RETURN(const int64_t value, row.get_int_or(key, fallback));
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    return row.error(key, "expected an integer of 32 bits, got " + std::to_string(value));
  }
  return static_cast<int32_t>(value);
}

Result<float> read_float(const JsonObject& row, std::string_view key, float fallback) {
  MS_ASSIGN_OR_RETURN(const double value, row.get_number_or(key, fallback));
  return static_cast<float>(value);
}

Result<std::vector<std::string>> read_stop(const JsonObject& row,
                                           const std::vector<std::string>& fallback) {
  const Json* stop = row.find("stop");
  if (stop == nullptr) return fallback;
  if (stop->is_string()) return std::vector<std::string>{stop->get<std::string>()};
  return row.get_strings("stop");
}

Status read_params(const JsonObject& row, const RowContext& context, SamplingParams& params) {
  params = context.defaults;
  MS_ASSIGN_OR_RETURN(params.max_tokens, read_int32(row, "max_tokens", params.max_tokens));
  MS_ASSIGN_OR_RETURN(params.temperature, read_float(row, "temperature", params.temperature));
  MS_ASSIGN_OR_RETURN(params.top_k, read_int32(row, "top_k", params.top_k));
  MS_ASSIGN_OR_RETURN(params.top_p, read_float(row, "top_p", params.top_p));
  MS_ASSIGN_OR_RETURN(params.min_p, read_float(row, "min_p", params.min_p));
  MS_ASSIGN_OR_RETURN(params.repetition_penalty,
                      read_float(row, "repetition_penalty", params.repetition_penalty));
  MS_ASSIGN_OR_RETURN(params.presence_penalty,
                      read_float(row, "presence_penalty", params.presence_penalty));
  MS_ASSIGN_OR_RETURN(params.frequency_penalty,
                      read_float(row, "frequency_penalty", params.frequency_penalty));
  MS_ASSIGN_OR_RETURN(params.n, read_int32(row, "n", params.n));
  MS_ASSIGN_OR_RETURN(params.top_logprobs, read_int32(row, "top_logprobs", params.top_logprobs));
  MS_ASSIGN_OR_RETURN(params.prompt_logprobs,
                      row.get_bool_or("prompt_logprobs", params.prompt_logprobs));
  MS_ASSIGN_OR_RETURN(params.stop, read_stop(row, params.stop));
  if (row.has("stop_tokens")) {
    MS_ASSIGN_OR_RETURN(params.stop_tokens, read_tokens(row, "stop_tokens"));
  }
  if (const Json* schema = row.find("json_schema")) {
    if (!schema->is_object() && !schema->is_boolean())
      return row.error("json_schema", "expected a schema, got " + std::string(json_kind(*schema)));
    params.json_schema = json_text(*schema);
  }
  if (row.has("seed")) {
    MS_ASSIGN_OR_RETURN(params.seed, row.get_uint("seed"));
  }
  MS_ASSIGN_OR_RETURN(const bool ignore_eos, row.get_bool_or("ignore_eos", false));
  if (!ignore_eos) {
    params.stop_tokens.insert(params.stop_tokens.end(), context.eos_tokens.begin(),
                              context.eos_tokens.end());
  }
  return {};
}

Result<std::vector<int32_t>> encode_prompt(const JsonObject& row, const RowContext& context) {
  const std::shared_ptr<const Tokenizer>& tokenizer = context.text->tokenizer;
  if (row.has("tokens")) return read_tokens(row, "tokens");
  const std::string_view field = row.has("prompt") ? "prompt" : "messages";
  if (tokenizer == nullptr) return row.error(field, "the model has no tokenizer; give \"tokens\"");
  std::string text;
  EncodeOptions options;
  if (row.has("prompt")) {
    MS_ASSIGN_OR_RETURN(text, row.get_string("prompt"));
    options.add_special_tokens = true;
  } else {
    if (context.text->chat_template == nullptr) {
      return row.error(field, "the model has no chat template; give \"prompt\" or \"tokens\"");
    }
    ChatOptions chat;
    chat.add_generation_prompt = true;
    chat.tools = row.find("tools");
    Result<std::string> rendered = context.text->chat_template->render(*row.find("messages"), chat);
    if (!rendered.ok()) return row.error(field, rendered.status().message());
    text = std::move(rendered).value();
  }
  Result<std::vector<int32_t>> tokens = tokenizer->encode(text, options);
  if (!tokens.ok()) return row.error(field, tokens.status().message());
  return tokens;
}

Json float_list(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(json_float(value));
  return list;
}

Json top_list(const std::vector<std::vector<TopLogprob>>& tops) {
  Json list = Json::array();
  for (const std::vector<TopLogprob>& place : tops) {
    Json pairs = Json::array();
    for (const TopLogprob& top : place) {
      pairs.push_back(Json::array({top.token, json_float(top.raw_logprob)}));
    }
    list.push_back(std::move(pairs));
  }
  return list;
}

bool is_cut(const SamplingParams& params) {
  return params.temperature != 0.0f &&
         (params.top_k > 0 || params.top_p < 1.0f || params.min_p > 0.0f);
}

}  // namespace

Result<SampleRow> parse_sample_row(std::string_view line, std::string_view where, int64_t number,
                                   const RowContext& context) {
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(line, where));
  MS_ASSIGN_OR_RETURN(const JsonObject row, JsonObject::from(json, where));
  MS_RETURN_IF_ERROR(check_field_names(row));
  const int kinds = int{row.has("prompt")} + int{row.has("messages")} + int{row.has("tokens")};
  if (kinds != 1) {
    return invalid_argument(std::string(where) +
                            ": expected one of \"prompt\", \"messages\" and \"tokens\", got " +
                            (kinds == 0 ? "none" : "several"));
  }
  SampleRow result;
  result.where = where;
  if (const Json* id = row.find("id")) result.id = *id;
  SampleRequest& request = result.request;
  MS_RETURN_IF_ERROR(read_params(row, context, request.params));
  const Status valid = validate(request.params, context.vocabulary);
  if (!valid.ok()) return valid.with_context(where);
  MS_ASSIGN_OR_RETURN(request.prompt, encode_prompt(row, context));
  request.adapter = context.adapter;
  request.place = number;
  return result;
}

std::string format_sample(const SampleRow& row, int32_t sample, const SampleResult& result) {
  const SamplingParams& params = row.request.params;
  Json json = Json::object();
  if (!row.id.is_null()) json["id"] = row.id;
  json["row"] = row.request.place;
  json["sample"] = sample;
  json["prompt_tokens"] = row.request.prompt;
  json["tokens"] = result.tokens;
  json["text"] = result.text;
  json["logprobs"] = float_list(result.logprobs);
  json["raw_logprobs"] = float_list(result.raw_logprobs);
  if (is_cut(params)) json["kept"] = result.kept;
  if (params.top_logprobs > 0) json["top_logprobs"] = top_list(result.top_logprobs);
  if (params.prompt_logprobs) json["prompt_logprobs"] = float_list(result.prompt_logprobs);
  json["stop_reason"] = std::string(stop_reason_name(result.stop_reason));
  json["seed"] = result.seed;
  return json_text(json);
}

Status check_kept_sample(std::string_view line, std::string_view where, const SampleRow& row,
                         int32_t sample, uint64_t seed) {
  const auto parsed = parse_json(line, where);
  if (!parsed.ok()) {
    return invalid_argument(parsed.status().message() +
                            "; cut the file before this line, or remove it to start again");
  }
  MS_ASSIGN_OR_RETURN(const JsonObject kept, JsonObject::from(*parsed, where));
  MS_ASSIGN_OR_RETURN(const int64_t kept_row, kept.get_int("row"));
  MS_ASSIGN_OR_RETURN(const int64_t kept_sample, kept.get_int("sample"));
  MS_ASSIGN_OR_RETURN(const uint64_t kept_seed, kept.get_uint("seed"));
  MS_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, read_tokens(kept, "prompt_tokens"));
  const auto differs = [&](std::string_view field) {
    return kept.error(field, "differs from what row " + std::to_string(row.request.place) +
                                 " of the input gives now; remove the file to start again");
  };
  if (kept_row != row.request.place) return differs("row");
  if (kept_sample != sample) return differs("sample");
  if (prompt != row.request.prompt) return differs("prompt_tokens");
  if (kept_seed != seed) return differs("seed");
  return {};
}

Result<TokensRow> parse_tokens_row(std::string_view line, std::string_view where, int32_t adapter) {
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(line, where));
  MS_ASSIGN_OR_RETURN(const JsonObject row, JsonObject::from(json, where));
  TokensRow result;
  result.where = where;
  if (const Json* id = row.find("id")) result.id = *id;
  MS_ASSIGN_OR_RETURN(result.row.tokens, read_tokens(row, "tokens"));
  result.row.adapter = adapter;
  return result;
}

std::string format_scores(const TokensRow& row, const std::vector<float>& logprobs) {
  Json json = Json::object();
  if (!row.id.is_null()) json["id"] = row.id;
  json["tokens"] = row.row.tokens;
  json["logprobs"] = float_list(logprobs);
  return json_text(json);
}

}  // namespace mainspring::cli

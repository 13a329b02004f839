#include "mainspring/cli/eval_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "mainspring/cli/field_names.h"

namespace mainspring::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

const std::vector<std::string>& known_fields() {
  static const std::vector<std::string> fields = {
      "id",      "task", "text",      "tokens", "query", "messages",  "tools",
      "choices", "gold", "delimiter", "target", "until", "max_tokens"};
  return fields;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

int64_t num_characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

Result<std::vector<int32_t>> encode(const JsonObject& row, std::string_view field,
                                    const std::string& text, const EvalContext& context,
                                    bool add_special) {
  auto tokens = context.text->tokenizer->encode(text, {.add_special_tokens = add_special});
  if (!tokens.ok()) return row.error(field, tokens.status().message());
  return tokens;
}

Status need_prefix(const JsonObject& row, std::string_view field, const EvalContext& context) {
  if (context.prefix_token >= 0) return {};
  return row.error(field,
                   "nothing stands before the first token, and the tokenizer has neither a bos nor "
                   "an eos token to put there");
}

/// The words before a choice or a generation, and whether tokens may be added around them.
struct Query {
  std::string field;
  std::string text;
  bool add_special = false;
};

Result<Query> read_query(const JsonObject& row, const EvalContext& context) {
  Query query;
  const bool has_messages = row.has("messages");
  if (has_messages == row.has("query"))
    return row.error("query", "expected one of \"query\" and \"messages\"");
  query.field = has_messages ? "messages" : "query";
  if (!has_messages) {
    MS_ASSIGN_OR_RETURN(query.text, row.get_string("query"));
    query.add_special = context.add_special_tokens;
    return query;
  }
  if (context.text->chat_template == nullptr)
    return row.error("messages", "the model has no chat template; give \"query\"");
  ChatOptions chat;
  chat.add_generation_prompt = true;
  chat.tools = row.find("tools");
  auto rendered = context.text->chat_template->render(*row.find("messages"), chat);
  if (!rendered.ok()) return row.error("messages", rendered.status().message());
  query.text = std::move(rendered).value();
  return query;
}

Status read_loss(const JsonObject& row, const EvalContext& context, EvalRow& out) {
  ScoredTokens scored;
  if (row.has("tokens")) {
    MS_ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, row.get_ints("tokens"));
    if (tokens.size() < 2) return row.error("tokens", "expected at least 2, to score the second");
    for (const int64_t token : tokens) {
      if (token < 0 || token > INT32_MAX) return row.error("tokens", "expected token numbers");
      scored.tokens.push_back(static_cast<int32_t>(token));
    }
    scored.first = 1;
  } else {
    MS_ASSIGN_OR_RETURN(const std::string text, row.get_string("text"));
    if (text.empty()) return row.error("text", "is empty");
    MS_RETURN_IF_ERROR(need_prefix(row, "text", context));
    MS_ASSIGN_OR_RETURN(scored.tokens, encode(row, "text", text, context, false));
    scored.tokens.insert(scored.tokens.begin(), context.prefix_token);
    scored.first = 1;
    out.bytes = static_cast<int64_t>(text.size());
  }
  out.scored.push_back(std::move(scored));
  return {};
}

/// The continuation's tokens are those of the whole text behind as many as the query alone has;
/// blanks at the query's end belong to the continuation.
Result<ScoredTokens> score_behind(const JsonObject& row, const Query& query,
                                  const std::string& continuation, const EvalContext& context) {
  const size_t end = query.text.find_last_not_of(kBlanks);
  const std::string head = end == std::string::npos ? "" : query.text.substr(0, end + 1);
  const std::string tail = query.text.substr(head.size()) + continuation;
  ScoredTokens scored;
  if (head.empty()) {
    MS_RETURN_IF_ERROR(need_prefix(row, query.field, context));
    MS_ASSIGN_OR_RETURN(scored.tokens, encode(row, query.field, tail, context, false));
    scored.tokens.insert(scored.tokens.begin(), context.prefix_token);
    scored.first = 1;
    return scored;
  }
  MS_ASSIGN_OR_RETURN(const auto alone, encode(row, query.field, head, context, query.add_special));
  MS_ASSIGN_OR_RETURN(scored.tokens,
                      encode(row, query.field, head + tail, context, query.add_special));
  scored.first = alone.size();
  if (scored.first >= scored.tokens.size())
    return row.error("choices", "\"" + continuation + "\" adds no token to the query");
  return scored;
}

Status read_choice(const JsonObject& row, const EvalContext& context, EvalRow& out) {
  MS_ASSIGN_OR_RETURN(const Query query, read_query(row, context));
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> choices, row.get_strings("choices"));
  MS_ASSIGN_OR_RETURN(const std::string delimiter,
                      row.get_string_or("delimiter", query.field == "query" ? " " : ""));
  MS_ASSIGN_OR_RETURN(out.gold, row.get_int("gold"));
  if (choices.size() < 2) return row.error("choices", "expected at least 2");
  if (out.gold < 0 || out.gold >= std::ssize(choices)) {
    return row.error("gold", "expected 0 to " + std::to_string(choices.size() - 1) + ", got " +
                                 std::to_string(out.gold));
  }
  for (const std::string& choice : choices) {
    if (choice.empty()) return row.error("choices", "a choice is empty");
    MS_ASSIGN_OR_RETURN(ScoredTokens scored, score_behind(row, query, delimiter + choice, context));
    out.scored.push_back(std::move(scored));
    out.lengths.push_back(num_characters(choice));
  }
  return {};
}

Status read_generation(const JsonObject& row, const EvalContext& context, EvalRow& out) {
  MS_ASSIGN_OR_RETURN(const Query query, read_query(row, context));
  const Json* target = row.find("target");
  if (target->is_string()) {
    out.targets = {target->get<std::string>()};
  } else {
    MS_ASSIGN_OR_RETURN(out.targets, row.get_strings("target"));
  }
  if (out.targets.empty()) return row.error("target", "expected at least one text");
  SampleRequest& request = out.request;
  MS_ASSIGN_OR_RETURN(request.prompt,
                      encode(row, query.field, query.text, context, query.add_special));
  if (request.prompt.empty()) {
    MS_RETURN_IF_ERROR(need_prefix(row, query.field, context));
    request.prompt = {context.prefix_token};
  }
  MS_ASSIGN_OR_RETURN(const int64_t max_tokens, row.get_int_or("max_tokens", 256));
  if (max_tokens < 1 || max_tokens > INT32_MAX)
    return row.error("max_tokens", "expected at least 1, got " + std::to_string(max_tokens));
  request.params.max_tokens = static_cast<int32_t>(max_tokens);
  request.params.temperature = 0.0f;
  request.params.seed = 0;
  request.params.stop_tokens = context.eos_tokens;
  request.adapter = context.adapter;
  request.place = out.number;
  if (const Json* until = row.find("until")) {
    if (until->is_string()) {
      request.params.stop = {until->get<std::string>()};
    } else {
      MS_ASSIGN_OR_RETURN(request.params.stop, row.get_strings("until"));
    }
    for (const std::string& stop : request.params.stop) {
      if (stop.empty()) return row.error("until", "expected texts that are not empty");
    }
  }
  return {};
}

// The fields of a kind beside id and task; the first are what it is told by.
const std::vector<std::string>& fields_of(EvalKind kind) {
  static const std::vector<std::string> loss = {"text", "tokens"};
  static const std::vector<std::string> choice = {"choices", "query", "messages",
                                                  "tools",   "gold",  "delimiter"};
  static const std::vector<std::string> generation = {"target", "query", "messages",
                                                      "tools",  "until", "max_tokens"};
  if (kind == EvalKind::kLoss) return loss;
  return kind == EvalKind::kChoice ? choice : generation;
}

bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A field of another kind says that the row was meant to be one.
Status check_fields(const JsonObject& row, EvalKind kind) {
  const std::vector<std::string>& own = fields_of(kind);
  for (const std::string& key : row.keys()) {
    if (key == "id" || key == "task" || !row.has(key) || !has_name(known_fields(), key) ||
        has_name(own, key)) {
      continue;
    }
    const std::string told_by = kind == EvalKind::kLoss && !row.has("text") ? "tokens" : own[0];
    return row.error(key, "does not go with \"" + told_by + "\", which makes the row a " +
                              std::string(eval_kind_name(kind)) + "; leave one of them out");
  }
  return {};
}

Result<EvalKind> kind_of(const JsonObject& row) {
  const bool is_loss = row.has("text") || row.has("tokens");
  const int kinds = int{is_loss} + int{row.has("choices")} + int{row.has("target")};
  if (kinds == 1 && !(row.has("text") && row.has("tokens"))) {
    if (is_loss) return EvalKind::kLoss;
    return row.has("choices") ? EvalKind::kChoice : EvalKind::kGeneration;
  }
  return row.error("text", std::string("expected one of \"text\", \"tokens\" (loss), \"choices\" "
                                       "(multiple choice) and \"target\" (generation), got ") +
                               (kinds == 0 ? "none" : "several"));
}

Json head_of(const EvalRow& row) {
  Json json = Json::object();
  if (!row.id.is_null()) json["id"] = row.id;
  json["row"] = row.number;
  json["task"] = row.task;
  json["kind"] = std::string(eval_kind_name(row.kind));
  return json;
}

double sum_from(const std::vector<float>& logprobs, size_t first) {
  double sum = 0;
  for (size_t i = first; i < logprobs.size(); ++i) sum += static_cast<double>(logprobs[i]);
  return sum;
}

/// The first of the largest.
int64_t best_of(const std::vector<double>& values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

}  // namespace

std::string_view eval_kind_name(EvalKind kind) {
  switch (kind) {
    case EvalKind::kLoss:
      return "loss";
    case EvalKind::kChoice:
      return "choice";
    case EvalKind::kGeneration:
      return "generation";
  }
  return "";
}

Result<EvalRow> parse_eval_row(std::string_view line, std::string_view where, int64_t number,
                               const EvalContext& context) {
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(line, where));
  MS_ASSIGN_OR_RETURN(const JsonObject row, JsonObject::from(json, where));
  MS_RETURN_IF_ERROR(check_near_names(row, known_fields()));
  EvalRow out;
  out.where = where;
  out.number = number;
  if (const Json* id = row.find("id")) out.id = *id;
  MS_ASSIGN_OR_RETURN(out.kind, kind_of(row));
  MS_RETURN_IF_ERROR(check_fields(row, out.kind));
  for (const std::string& key : row.keys()) {
    if (!has_name(known_fields(), key)) out.unused.push_back(key);
  }
  MS_ASSIGN_OR_RETURN(out.task, row.get_string_or("task", eval_kind_name(out.kind)));
  if (context.text->tokenizer == nullptr && !row.has("tokens"))
    return row.error("text", "the model has no tokenizer; give \"tokens\"");
  switch (out.kind) {
    case EvalKind::kLoss:
      MS_RETURN_IF_ERROR(read_loss(row, context, out));
      break;
    case EvalKind::kChoice:
      MS_RETURN_IF_ERROR(read_choice(row, context, out));
      break;
    case EvalKind::kGeneration:
      MS_RETURN_IF_ERROR(read_generation(row, context, out));
      break;
  }
  return out;
}

std::string format_scored(const EvalRow& row, std::span<const std::vector<float>> logprobs) {
  Json json = head_of(row);
  if (row.kind == EvalKind::kLoss) {
    json["loglikelihood"] = sum_from(logprobs[0], row.scored[0].first);
    json["tokens"] = row.scored[0].tokens.size() - row.scored[0].first;
    if (row.bytes > 0) json["bytes"] = row.bytes;
    return json_text(json);
  }
  std::vector<double> sums;
  std::vector<double> per_character;
  for (size_t i = 0; i < row.scored.size(); ++i) {
    sums.push_back(sum_from(logprobs[i], row.scored[i].first));
    per_character.push_back(sums.back() / static_cast<double>(row.lengths[i]));
  }
  json["loglikelihoods"] = sums;
  json["lengths"] = row.lengths;
  json["gold"] = row.gold;
  json["choice"] = best_of(sums);
  json["choice_norm"] = best_of(per_character);
  return json_text(json);
}

std::string format_generated(const EvalRow& row, const SampleResult& result) {
  Json json = head_of(row);
  const auto is_right = [&](const std::string& target) {
    return trimmed(target) == trimmed(result.text);
  };
  json["text"] = result.text;
  json["tokens"] = result.tokens.size();
  json["stop_reason"] = std::string(stop_reason_name(result.stop_reason));
  json["exact_match"] = std::any_of(row.targets.begin(), row.targets.end(), is_right);
  return json_text(json);
}

EvalSummary::Task& EvalSummary::task_of(const EvalRow& row) {
  for (Task& task : tasks_) {
    if (task.name == row.task && task.kind == row.kind) return task;
  }
  tasks_.emplace_back();
  tasks_.back().name = row.task;
  tasks_.back().kind = row.kind;
  return tasks_.back();
}

Status EvalSummary::add(std::string_view line, std::string_view where, const EvalRow& row) {
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(line, where));
  MS_ASSIGN_OR_RETURN(const JsonObject outcome, JsonObject::from(json, where));
  MS_ASSIGN_OR_RETURN(const int64_t number, outcome.get_int("row"));
  MS_ASSIGN_OR_RETURN(const std::string kind, outcome.get_string("kind"));
  if (number != row.number || kind != eval_kind_name(row.kind)) {
    return outcome.error("row", "is not the outcome of row " + std::to_string(row.number) +
                                    " of the input; remove the file to start again");
  }
  Task& task = task_of(row);
  ++task.rows;
  if (row.kind == EvalKind::kLoss) {
    MS_ASSIGN_OR_RETURN(const double loglikelihood, outcome.get_number("loglikelihood"));
    MS_ASSIGN_OR_RETURN(const int64_t tokens, outcome.get_int("tokens"));
    task.nll -= loglikelihood;
    task.tokens += tokens;
    task.bytes += row.bytes;
    if (row.bytes == 0) ++task.rows_without_bytes;
  } else if (row.kind == EvalKind::kChoice) {
    MS_ASSIGN_OR_RETURN(const int64_t choice, outcome.get_int("choice"));
    MS_ASSIGN_OR_RETURN(const int64_t choice_norm, outcome.get_int("choice_norm"));
    task.right += choice == row.gold ? 1 : 0;
    task.right_norm += choice_norm == row.gold ? 1 : 0;
  } else {
    MS_ASSIGN_OR_RETURN(const bool exact, outcome.get_bool("exact_match"));
    task.right += exact ? 1 : 0;
  }
  return {};
}

Json EvalSummary::json() const {
  Json list = Json::array();
  for (const Task& task : tasks_) {
    Json json = {
        {"task", task.name}, {"kind", std::string(eval_kind_name(task.kind))}, {"rows", task.rows}};
    const auto share = [&](const char* name, int64_t right) {
      const auto n = static_cast<double>(task.rows);
      const double mean = static_cast<double>(right) / n;
      json[name] = mean;
      if (task.rows > 1)
        json[std::string(name) + "_stderr"] = std::sqrt(mean * (1.0 - mean) / (n - 1.0));
    };
    if (task.kind == EvalKind::kLoss) {
      json["tokens"] = task.tokens;
      json["loss"] = task.nll / static_cast<double>(task.tokens);
      if (task.rows_without_bytes == 0)
        json["bits_per_byte"] = task.nll / std::log(2.0) / static_cast<double>(task.bytes);
      else if (task.rows_without_bytes < task.rows)
        json["rows_without_bytes"] = task.rows_without_bytes;
    } else if (task.kind == EvalKind::kChoice) {
      share("acc", task.right);
      share("acc_norm", task.right_norm);
    } else {
      share("exact_match", task.right);
    }
    list.push_back(std::move(json));
  }
  return list;
}

std::string EvalSummary::table() const {
  std::string out;
  for (const Json& task : json()) {
    char line[256];
    std::snprintf(line, sizeof(line), "%-24s %-10s %6lld rows",
                  task.at("task").get<std::string>().c_str(),
                  task.at("kind").get<std::string>().c_str(),
                  static_cast<long long>(task.at("rows").get<int64_t>()));
    out += line;
    for (const char* name : {"loss", "bits_per_byte", "acc", "acc_norm", "exact_match"}) {
      if (!task.contains(name)) continue;
      std::snprintf(line, sizeof(line), "  %s %.4f", name, task.at(name).get<double>());
      out += line;
      const std::string error = std::string(name) + "_stderr";
      if (!task.contains(error)) continue;
      std::snprintf(line, sizeof(line), " +- %.4f", task.at(error).get<double>());
      out += line;
    }
    if (task.contains("rows_without_bytes")) {
      const auto rows = task.at("rows_without_bytes").get<int64_t>();
      out += "  no bits_per_byte: " + std::to_string(rows) +
             (rows == 1 ? " row came" : " rows came") + " as tokens";
    }
    out += '\n';
  }
  return out;
}

}  // namespace mainspring::cli

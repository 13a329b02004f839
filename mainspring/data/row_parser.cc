#include "mainspring/data/row_parser.h"

#include <algorithm>
#include <limits>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

const std::vector<std::string> kRoles = {"system", "developer", "user", "assistant", "tool"};

Status wrong(std::string_view where, const std::string& field, const std::string& problem) {
  return invalid_argument(std::string(where) + ": " + field + ": " + problem);
}

Status expected(std::string_view where, const std::string& field, const std::string& what,
                const Json& got) {
  return wrong(where, field, "expected " + what + ", got " + std::string(json_kind(got)));
}

Status check_content(const Json& message, std::string_view where, const std::string& field) {
  const auto content = message.find("content");
  const bool calls_tools = message.contains("tool_calls") && !message["tool_calls"].is_null();
  if (content == message.end() || content->is_null()) {
    if (calls_tools) return {};
    return wrong(where, field + ".content", "is missing; expected a string");
  }
  if (content->is_string()) return {};
  if (!content->is_array()) return expected(where, field + ".content", "a string", *content);
  for (size_t i = 0; i < content->size(); ++i) {  // [{"type": "text", "text": "..."}]
    const Json& part = (*content)[i];
    const std::string at = field + ".content[" + std::to_string(i) + "]";
    if (!part.is_object()) return expected(where, at, "an object", part);
    if (part.value("type", Json()) != "text") {
      return wrong(where, at + ".type", "expected \"text\": only text can be trained on");
    }
    const Json text = part.value("text", Json());
    if (!text.is_string()) return expected(where, at + ".text", "a string", text);
  }
  return {};
}

Status check_messages(const Json& messages, std::string_view where, const std::string& field) {
  if (!messages.is_array()) return expected(where, field, "a list of messages", messages);
  if (messages.empty()) return wrong(where, field, "is empty; expected at least one message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const std::string at = field + "[" + std::to_string(i) + "]";
    if (!message.is_object()) return expected(where, at, "an object", message);
    const auto role = message.find("role");
    if (role == message.end()) {
      const bool sharegpt = message.contains("from") && message.contains("value");
      return wrong(where, at + ".role",
                   std::string("is missing") +
                       (sharegpt ? "; the message has 'from' and 'value', which are called "
                                   "'role' and 'content' here"
                                 : ""));
    }
    if (!role->is_string()) return expected(where, at + ".role", "a string", *role);
    const auto& name = role->get_ref<const std::string&>();
    if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
      return wrong(where, at + ".role",
                   "expected one of system, developer, user, assistant, tool; got '" + name +
                       "' (nearest: " + nearest_name(name, kRoles) + ")");
    }
    MS_RETURN_IF_ERROR(check_content(message, where, at));
  }
  return {};
}

/// Tool descriptions: a list of objects, or the text of one (tables with fixed columns store that).
Result<Json> read_tools(const Json& row, std::string_view where) {
  const auto found = row.find("tools");
  if (found == row.end() || found->is_null()) return Json();
  Json tools = *found;
  if (tools.is_string()) {
    const auto& text = tools.get_ref<const std::string&>();
    if (text.empty()) return Json();
    Result<Json> parsed = parse_json(text, std::string(where) + ": tools");
    if (!parsed.ok()) return parsed.status();
    tools = std::move(parsed).value();
    if (tools.is_null()) return Json();
  }
  if (!tools.is_array()) return expected(where, "tools", "a list of objects", tools);
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!tools[i].is_object()) {
      return expected(where, "tools[" + std::to_string(i) + "]", "an object", tools[i]);
    }
  }
  if (tools.empty()) return Json();
  return tools;
}

Status read_chat(Json& row, std::string_view where, ParsedRow& out) {
  const auto messages = row.find("messages");
  if (messages == row.end()) return wrong(where, "messages", "is missing");
  MS_RETURN_IF_ERROR(check_messages(*messages, where, "messages"));
  MS_ASSIGN_OR_RETURN(out.tools, read_tools(row, where));
  out.messages = std::move(*messages);
  out.is_message_list = true;
  return {};
}

// `answer`: the field of what follows the prompt.
Status read_completion(Json& row, std::string_view where, const char* answer, ParsedRow& out) {
  for (const char* field : {"prompt", answer}) {
    const auto found = row.find(field);
    if (found == row.end() || found->is_null()) {
      return wrong(where, field, "is missing; expected a string or a list of messages");
    }
    if (!found->is_string() && !found->is_array()) {
      return expected(where, field, "a string or a list of messages", *found);
    }
  }
  Json& prompt = row["prompt"];
  Json& completion = row[answer];
  if (prompt.is_string() != completion.is_string()) {
    return expected(
        where, answer,
        prompt.is_string() ? "a string, as prompt is" : "a list of messages, as prompt is",
        completion);
  }
  if (prompt.is_string()) {
    out.prompt = std::move(prompt.get_ref<std::string&>());
    out.text = std::move(completion.get_ref<std::string&>());
    return {};
  }
  MS_RETURN_IF_ERROR(check_messages(prompt, where, "prompt"));
  MS_RETURN_IF_ERROR(check_messages(completion, where, answer));
  MS_ASSIGN_OR_RETURN(out.tools, read_tools(row, where));
  out.messages = std::move(prompt);
  out.first_completion = out.messages.size();
  out.is_message_list = true;
  for (Json& message : completion) out.messages.push_back(std::move(message));
  return {};
}

// Adds row[field] to out.tokens.
Status read_token_list(const Json& row, std::string_view where, const std::string& field,
                       ParsedRow& out) {
  const auto tokens = row.find(field);
  if (tokens == row.end()) return wrong(where, field, "is missing");
  if (!tokens->is_array()) return expected(where, field, "a list of integers", *tokens);
  for (size_t i = 0; i < tokens->size(); ++i) {
    const Json& token = (*tokens)[i];
    const std::string at = field + "[" + std::to_string(i) + "]";
    if (!token.is_number_integer()) return expected(where, at, "an integer", token);
    const bool fits = token.is_number_unsigned()
                          ? token.get<uint64_t>() <= std::numeric_limits<int32_t>::max()
                          : token.get<int64_t>() >= 0 &&
                                token.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) return wrong(where, at, "expected a token number, got " + json_text(token));
    out.tokens.push_back(token.get<int32_t>());
  }
  return {};
}

Status read_tokens(const Json& row, std::string_view where, ParsedRow& out) {
  MS_RETURN_IF_ERROR(read_token_list(row, where, "tokens", out));
  const auto mask = row.find("mask");
  if (mask == row.end() || mask->is_null()) {
    out.mask.assign(out.tokens.size(), 1);
    return {};
  }
  if (!mask->is_array()) return expected(where, "mask", "a list of 0 and 1", *mask);
  if (mask->size() != out.tokens.size()) {
    return wrong(where, "mask",
                 "expected " + std::to_string(out.tokens.size()) + " entries, as tokens has, got " +
                     std::to_string(mask->size()));
  }
  for (size_t i = 0; i < mask->size(); ++i) {
    const Json& entry = (*mask)[i];
    const bool is_flag = entry.is_boolean() || entry == 0 || entry == 1;
    if (!is_flag) {
      return wrong(where, "mask[" + std::to_string(i) + "]",
                   "expected 0 or 1, got " + json_text(entry));
    }
    out.mask.push_back(entry == true || entry == 1 ? 1 : 0);
  }
  return {};
}

// Whether a field is a list of token numbers, and not of messages.
bool is_token_list(const Json& row, const char* field) {
  const auto found = row.find(field);
  return found != row.end() && found->is_array() && !found->empty() &&
         std::none_of(found->begin(), found->end(), [](const Json& e) { return e.is_object(); });
}

// A pair of whole conversations: the prompt is the messages that they begin with in common.
Status split_off_prompt(Json& row, std::string_view where) {
  if (!row.contains("chosen") || !row["chosen"].is_array() || is_token_list(row, "chosen") ||
      !row.contains("rejected") || !row["rejected"].is_array()) {
    return wrong(where, "prompt",
                 "is missing; only chosen and rejected that are lists of messages go without it");
  }
  const Json& chosen = row["chosen"];
  const Json& rejected = row["rejected"];
  size_t common = 0;
  while (common < chosen.size() && common < rejected.size() && chosen[common] == rejected[common]) {
    ++common;
  }
  if (common == 0) {
    return wrong(where, "prompt",
                 "is missing, and chosen and rejected begin with no message in "
                 "common that could be it");
  }
  const auto part = [](const Json& list, size_t begin, size_t end) {
    Json out = Json::array();
    for (size_t i = begin; i < end; ++i) out.push_back(list[i]);
    return out;
  };
  row["prompt"] = part(chosen, 0, common);
  for (const char* field : {"chosen", "rejected"}) {
    row[field] = part(row[field], common, row[field].size());
  }
  return {};
}

// A prompt with one of its answers, as a row of its own.
Status read_answer(Json& row, std::string_view where, const char* field, ParsedRow& out) {
  out.format = RowFormat::kCompletion;
  if (!is_token_list(row, "prompt")) return read_completion(row, where, field, out);
  out.format = RowFormat::kTokens;
  MS_RETURN_IF_ERROR(read_token_list(row, where, "prompt", out));
  out.mask.assign(out.tokens.size(), 0);
  MS_RETURN_IF_ERROR(read_token_list(row, where, field, out));
  out.mask.resize(out.tokens.size(), 1);
  return {};
}

Status read_text(Json& row, std::string_view where, ParsedRow& out) {
  const auto text = row.find("text");
  if (text == row.end()) return wrong(where, "text", "is missing");
  if (!text->is_string()) return expected(where, "text", "a string", *text);
  out.text = std::move(text->get_ref<std::string&>());
  return {};
}

Result<RowFormat> format_of(const Json& row, std::string_view where) {
  if (row.contains("messages")) return RowFormat::kChat;
  if (row.contains("prompt") && row.contains("completion")) return RowFormat::kCompletion;
  if (row.contains("tokens") && row["tokens"].is_array()) return RowFormat::kTokens;
  if (row.contains("text")) return RowFormat::kText;
  if (row.contains("prompt") || row.contains("completion")) return RowFormat::kCompletion;
  std::string has;
  for (const auto& [key, value] : row.items()) has += (has.empty() ? "" : ", ") + key;
  const char* hint =
      row.contains("conversations") ? " (conversations are called messages here)" : "";
  return invalid_argument(
      std::string(where) +
      ": expected a field messages, prompt and completion, tokens, or text; the row has " +
      (has.empty() ? "no fields" : has) + hint);
}

/// parse_json's "<where>:1:<column>: reason" without the line, which is always 1.
Result<Json> parse_line(std::string_view line, std::string_view where) {
  Result<Json> json = parse_json(line, where);
  if (json.ok()) return json;
  std::string message = json.status().message();
  const std::string head = std::string(where) + ":1:";
  if (message.rfind(head, 0) == 0)
    message = std::string(where) + ": column " + message.substr(head.size());
  const size_t first = line.find_first_not_of(" \t");
  if (first != std::string_view::npos && line[first] == '[') {
    message += "; expected one JSON object a line, not a JSON list";
  }
  return invalid_argument(message);
}

}  // namespace

Result<RowFormat> row_format_from_name(std::string_view name) {
  const std::vector<std::string> names = {"auto", "chat", "completion", "tokens", "text"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<RowFormat>(i);
  }
  return invalid_argument("expected auto, chat, completion, tokens or text, got '" +
                          std::string(name) + "' (nearest: " + nearest_name(name, names) + ")");
}

std::string_view row_format_name(RowFormat format) {
  switch (format) {
    case RowFormat::kAuto:
      return "auto";
    case RowFormat::kChat:
      return "chat";
    case RowFormat::kCompletion:
      return "completion";
    case RowFormat::kTokens:
      return "tokens";
    case RowFormat::kText:
      return "text";
    case RowFormat::kPreference:
      return "preference";
  }
  return "?";
}

const std::vector<std::string>& row_field_names() {
  static const std::vector<std::string> kNames = {
      "messages", "tools", "prompt", "completion", "tokens", "mask", "text", "chosen", "rejected"};
  return kNames;
}

Result<ParsedRow> parse_row(std::string_view json_line, std::string_view where, RowFormat format) {
  MS_ASSIGN_OR_RETURN(Json row, parse_line(json_line, where));
  if (!row.is_object()) {
    return invalid_argument(std::string(where) + ": expected one JSON object a line, got " +
                            std::string(json_kind(row)));
  }
  ParsedRow out;
  out.format = format;
  if (format == RowFormat::kAuto) {
    MS_ASSIGN_OR_RETURN(out.format, format_of(row, where));
  }
  switch (out.format) {
    case RowFormat::kAuto:
      break;
    case RowFormat::kChat:
      MS_RETURN_IF_ERROR(read_chat(row, where, out));
      break;
    case RowFormat::kCompletion:
      MS_RETURN_IF_ERROR(read_completion(row, where, "completion", out));
      break;
    case RowFormat::kTokens:
      MS_RETURN_IF_ERROR(read_tokens(row, where, out));
      break;
    case RowFormat::kText:
      MS_RETURN_IF_ERROR(read_text(row, where, out));
      break;
    case RowFormat::kPreference:
      return internal_error("a pair is read by parse_pair");
  }
  return out;
}

Result<ParsedPair> parse_pair(std::string_view json_line, std::string_view where) {
  MS_ASSIGN_OR_RETURN(Json row, parse_line(json_line, where));
  if (!row.is_object()) {
    return invalid_argument(std::string(where) + ": expected one JSON object a line, got " +
                            std::string(json_kind(row)));
  }
  if (!row.contains("prompt")) MS_RETURN_IF_ERROR(split_off_prompt(row, where));
  ParsedPair pair;
  Json copy = row;
  MS_RETURN_IF_ERROR(read_answer(copy, where, "chosen", pair.chosen));
  MS_RETURN_IF_ERROR(read_answer(row, where, "rejected", pair.rejected));
  return pair;
}

}  // namespace mainspring

#include "mainspring/models/tokenizer_source.h"

#include <algorithm>
#include <filesystem>

#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

constexpr int64_t kMaxTokenizerBytes = int64_t{1} << 29;
constexpr int64_t kMaxTemplateBytes = int64_t{1} << 24;

Status read_if_there(const std::string& path, int64_t max_bytes, std::string& out) {
  if (!is_regular_file(path)) return Status();
  MS_ASSIGN_OR_RETURN(out, read_text_file(path, max_bytes));
  return Status();
}

/// A special token is a text, or an object with its text in "content".
Status read_special(const JsonObject& json, std::string_view key, std::string& out) {
  const Json* value = json.find(key);
  if (value == nullptr) return Status();
  if (value->is_object()) {
    MS_ASSIGN_OR_RETURN(const JsonObject token, json.get_object(key));
    MS_ASSIGN_OR_RETURN(out, token.get_string("content"));
    return Status();
  }
  MS_ASSIGN_OR_RETURN(out, json.get_string(key));
  return Status();
}

/// chat_template: one text, or [{"name": ..., "template": ...}, ...] whose "default" is the usual
/// one.
Status read_templates(const JsonObject& json, TokenizerSource& out) {
  constexpr std::string_view kKey = "chat_template";
  const Json* value = json.find(kKey);
  if (value == nullptr) return Status();
  if (!value->is_array()) {
    MS_ASSIGN_OR_RETURN(out.chat_template, json.get_string(kKey));
    return Status();
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const std::string path = std::string(kKey) + "[" + std::to_string(i) + "]";
    MS_ASSIGN_OR_RETURN(const JsonObject item, JsonObject::from((*value)[i], json.where(path)));
    MS_ASSIGN_OR_RETURN(const std::string name, item.get_string("name"));
    MS_ASSIGN_OR_RETURN(const std::string text, item.get_string("template"));
    (name == "default" ? out.chat_template : out.named_chat_templates[name]) = text;
  }
  return Status();
}

Status read_tokenizer_config(const std::string& path, TokenizerSource& out) {
  MS_ASSIGN_OR_RETURN(const Json root, parse_json(out.tokenizer_config_json, path));
  MS_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::from(root, path));
  MS_RETURN_IF_ERROR(read_special(json, "bos_token", out.bos_token));
  MS_RETURN_IF_ERROR(read_special(json, "eos_token", out.eos_token));
  MS_RETURN_IF_ERROR(read_special(json, "pad_token", out.pad_token));
  MS_RETURN_IF_ERROR(read_special(json, "unk_token", out.unk_token));
  return read_templates(json, out);
}

Status read_template_files(const std::string& folder, TokenizerSource& out) {
  MS_RETURN_IF_ERROR(read_if_there(join_path(folder, "chat_template.jinja"), kMaxTemplateBytes,
                                   out.chat_template));
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(join_path(folder, "additional_chat_templates"), none)) {
    if (entry.path().extension() != ".jinja") continue;
    std::string& text = out.named_chat_templates[entry.path().stem().string()];
    MS_RETURN_IF_ERROR(read_if_there(entry.path().string(), kMaxTemplateBytes, text));
  }
  return Status();
}

std::string token_text(const GgufTokenizer& tokenizer, int32_t token) {
  return token < 0 ? "" : tokenizer.tokens[static_cast<size_t>(token)];
}

}  // namespace

Result<TokenizerSource> read_folder_tokenizer(const std::string& folder) {
  TokenizerSource out;
  MS_RETURN_IF_ERROR(
      read_if_there(join_path(folder, "tokenizer.json"), kMaxTokenizerBytes, out.tokenizer_json));
  const std::string config_path = join_path(folder, "tokenizer_config.json");
  MS_RETURN_IF_ERROR(read_if_there(config_path, kMaxTemplateBytes, out.tokenizer_config_json));
  if (!out.tokenizer_config_json.empty())
    MS_RETURN_IF_ERROR(read_tokenizer_config(config_path, out));
  MS_RETURN_IF_ERROR(read_template_files(folder, out));
  return out;
}

bool has_gguf_tokenizer(const GgufFile& file) {
  const auto model = file.metadata().find("tokenizer.ggml.model");
  return model != file.metadata().end() && model->second.string != "none" &&
         model->second.string != "no_vocab";
}

Result<TokenizerSource> read_gguf_tokenizer_source(const GgufFile& file) {
  TokenizerSource out;
  MS_ASSIGN_OR_RETURN(GgufTokenizer tokenizer, read_gguf_tokenizer(file));
  out.chat_template = tokenizer.chat_template;
  out.bos_token = token_text(tokenizer, tokenizer.bos_token);
  out.eos_token = token_text(tokenizer, tokenizer.eos_token);
  out.pad_token = token_text(tokenizer, tokenizer.padding_token);
  out.unk_token = token_text(tokenizer, tokenizer.unknown_token);
  out.gguf = std::move(tokenizer);
  return out;
}

}  // namespace mainspring

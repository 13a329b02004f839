#include "mainspring/io/gguf_tokenizer.h"

#include "mainspring/io/gguf.h"

namespace mainspring {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key_of(std::string_view name) { return std::string(kPrefix) + std::string(name); }

Status read_token(const GgufFile& file, std::string_view name, size_t num_tokens, int32_t& out) {
  const std::string key = key_of(name);
  if (!file.has(key)) return Status();
  MS_ASSIGN_OR_RETURN(const int64_t id, file.get_int(key));
  // Converters write -1 (as a signed or an unsigned value) for "none".
  if (id == -1 || id == 0xffffffff) return Status();
  if (id < 0 || id >= static_cast<int64_t>(num_tokens)) {
    return invalid_argument(file.path() + ": metadata '" + key + "': token " + std::to_string(id) +
                            " of " + std::to_string(num_tokens));
  }
  out = static_cast<int32_t>(id);
  return Status();
}

Status read_flag(const GgufFile& file, std::string_view name, bool& out) {
  const std::string key = key_of(name);
  if (!file.has(key)) return Status();
  MS_ASSIGN_OR_RETURN(out, file.get_bool(key));
  return Status();
}

/// What llama.cpp does where the file does not say: sentencepiece models and Llama 3's.
bool puts_bos_first(const GgufTokenizer& tokenizer) {
  if (tokenizer.model == "llama") return true;
  return tokenizer.pre == "llama-bpe" || tokenizer.pre == "llama3" || tokenizer.pre == "llama-v3";
}

Status check_length(const GgufFile& file, std::string_view name, size_t got, size_t expected) {
  if (got == expected) return Status();
  return invalid_argument(file.path() + ": metadata '" + key_of(name) + "': expected " +
                          std::to_string(expected) + " values, one per token, got " +
                          std::to_string(got));
}

}  // namespace

Result<GgufTokenizer> read_gguf_tokenizer(const GgufFile& file) {
  GgufTokenizer out;
  MS_ASSIGN_OR_RETURN(out.model, file.get_string(key_of("model")));
  if (file.has(key_of("pre"))) {
    MS_ASSIGN_OR_RETURN(out.pre, file.get_string(key_of("pre")));
  }
  MS_ASSIGN_OR_RETURN(out.tokens, file.get_strings(key_of("tokens")));
  const size_t num_tokens = out.tokens.size();
  if (file.has(key_of("token_type"))) {
    MS_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.get_ints(key_of("token_type")));
    out.token_types.assign(types.begin(), types.end());
    MS_RETURN_IF_ERROR(check_length(file, "token_type", types.size(), num_tokens));
  } else {
    out.token_types.assign(num_tokens, 1);
  }
  if (file.has(key_of("scores"))) {
    MS_ASSIGN_OR_RETURN(out.scores, file.get_floats(key_of("scores")));
    MS_RETURN_IF_ERROR(check_length(file, "scores", out.scores.size(), num_tokens));
  }
  if (file.has(key_of("merges"))) {
    MS_ASSIGN_OR_RETURN(out.merges, file.get_strings(key_of("merges")));
  }
  MS_RETURN_IF_ERROR(read_token(file, "bos_token_id", num_tokens, out.bos_token));
  MS_RETURN_IF_ERROR(read_token(file, "eos_token_id", num_tokens, out.eos_token));
  MS_RETURN_IF_ERROR(read_token(file, "unknown_token_id", num_tokens, out.unknown_token));
  MS_RETURN_IF_ERROR(read_token(file, "padding_token_id", num_tokens, out.padding_token));
  MS_RETURN_IF_ERROR(read_token(file, "eot_token_id", num_tokens, out.eot_token));
  out.add_bos_token = puts_bos_first(out);
  MS_RETURN_IF_ERROR(read_flag(file, "add_bos_token", out.add_bos_token));
  MS_RETURN_IF_ERROR(read_flag(file, "add_eos_token", out.add_eos_token));
  MS_RETURN_IF_ERROR(read_flag(file, "add_space_prefix", out.add_space_prefix));
  if (file.has("tokenizer.chat_template")) {
    MS_ASSIGN_OR_RETURN(out.chat_template, file.get_string("tokenizer.chat_template"));
  }
  return out;
}

}  // namespace mainspring

#include "mainspring/text/tokenizer_to_gguf.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

// Token types of GGUF.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

/// Names of byte-level families that the bridge and llama.cpp know, one per family.
constexpr const char* kByteLevelNames[] = {"smollm", "llama-bpe", "qwen2", "gpt-2"};

/// Texts on which families, prefixes and added tokens would differ.
constexpr const char* kProbes[] = {
    "a",
    "Hello world",
    " leading blank",
    "two  blanks   three",
    "trailing ",
    "12345 and 3.14159, 1,000",
    "I'm you're WE'LL they'd it's",
    "caf\xc3\xa9 cafe\xcc\x81 na\xc3\xafve",
    "\xe6\xbc\xa2\xe5\xad\x97\xe3\x81\x8b\xe3\x81\xaa",
    "\xf0\x9f\x98\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb!",
    "tab\there\n\nnew lines\r\n  indented",
    "x=1;y+=2; // comment __init__ #%&*()",
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7"};

Status cannot_say(const std::string& what) {
  return unimplemented("tokenizer: " + what +
                       " cannot be written to a GGUF file; a Hugging Face folder can hold it");
}

bool is_byte_token(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool is_true(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

Status fill_tokens(const Json& model, const Json& json, int64_t rows, GgufTokenizer& out) {
  for (int64_t i = 0; i < rows; ++i) out.tokens.push_back("[PAD" + std::to_string(i) + "]");
  out.token_types.assign(static_cast<size_t>(rows), kUnused);
  const auto set = [&](int64_t id, const std::string& text, int32_t type) -> Status {
    if (id < 0 || id >= rows) {
      return invalid_argument("tokenizer: token '" + text + "' is number " + std::to_string(id) +
                              ", the model has " + std::to_string(rows) + " rows");
    }
    out.tokens[static_cast<size_t>(id)] = text;
    out.token_types[static_cast<size_t>(id)] = type;
    return Status();
  };
  const bool has_bytes = is_true(model, "byte_fallback");
  const Json* unknown = member(model, "unk_token");
  for (const auto& [text, id] : model.at("vocab").items()) {
    const bool is_unknown = unknown != nullptr && *unknown == text;
    const int32_t type = is_unknown ? kUnknown : has_bytes && is_byte_token(text) ? kByte : kNormal;
    MS_RETURN_IF_ERROR(set(id.get<int64_t>(), text, type));
    if (is_unknown) out.unknown_token = id.get<int32_t>();
  }
  for (const Json& token : json.at("added_tokens")) {
    const auto id = token.at("id").get<int64_t>();
    if (out.unknown_token == id) continue;
    MS_RETURN_IF_ERROR(set(id, token.at("content").get<std::string>(),
                           is_true(token, "special") ? kControl : kUserDefined));
  }
  return Status();
}

Status fill_merges(const Json& model, GgufTokenizer& out) {
  for (const Json& merge : model.at("merges")) {
    if (merge.is_string()) {
      out.merges.push_back(merge.get<std::string>());
      continue;
    }
    const auto left = merge.at(0).get<std::string>();
    const auto right = merge.at(1).get<std::string>();
    if (left.find(' ', 1) != std::string::npos || right.find(' ') != std::string::npos)
      return cannot_say("merge '" + left + "' + '" + right + "', which has blanks,");
    out.merges.push_back(left + " " + right);
  }
  return Status();
}

/// SentencePiece files have scores and no merges: a token is as good as its first merge is early.
void merges_to_scores(GgufTokenizer& out) {
  std::map<std::string, float> rank;
  for (const std::string& merge : out.merges) {
    const size_t cut = merge.find(' ', 1);
    rank.emplace(merge.substr(0, cut) + merge.substr(cut + 1), -static_cast<float>(rank.size()));
  }
  const auto worst = -static_cast<float>(rank.size());
  for (size_t i = 0; i < out.tokens.size(); ++i) {
    const auto found = rank.find(out.tokens[i]);
    const bool is_special = out.token_types[i] != kNormal;
    out.scores.push_back(found != rank.end() ? found->second : is_special ? 0.0f : worst);
  }
  out.merges.clear();
}

/// How a byte-level tokenizer treats a text before its merges.
Json pipeline_of(const Json& json) {
  Json steps = Json::array();
  if (const Json* pre = member(json, "pre_tokenizer")) {
    const Json* sequence = member(*pre, "pretokenizers");
    if (sequence != nullptr)
      steps = *sequence;
    else
      steps.push_back(*pre);
  }
  for (Json& step : steps) step.erase("trim_offsets");  // of ranges, not of ids
  const Json* normalizer = member(json, "normalizer");
  return Json{{"normalizer", normalizer != nullptr ? *normalizer : Json(nullptr)},
              {"steps", std::move(steps)},
              {"ignore_merges", is_true(json.at("model"), "ignore_merges")}};
}

Result<Json> json_of(const Tokenizer& tokenizer) {
  MS_ASSIGN_OR_RETURN(const std::string text, tokenizer.to_json());
  return parse_json(text, "tokenizer");
}

Result<std::string> byte_level_name(const Json& json) {
  GgufTokenizer probe;
  probe.model = "gpt2";
  probe.tokens = {"a", "b", "ab"};
  probe.token_types = {kNormal, kNormal, kNormal};
  probe.merges = {"a b"};
  const Json wanted = pipeline_of(json);
  for (const char* name : kByteLevelNames) {
    probe.pre = name;
    MS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::from_gguf(probe));
    MS_ASSIGN_OR_RETURN(const Json known, json_of(*tokenizer));
    if (pipeline_of(known) == wanted) return std::string(name);
  }
  return cannot_say("a pre-tokenizer other than those of smollm, llama-bpe, qwen2 and gpt-2");
}

/// What the tokenizer puts around a text.
Status fill_surrounding(const Tokenizer& tokenizer, GgufTokenizer& out) {
  MS_ASSIGN_OR_RETURN(const std::vector<int32_t> plain, tokenizer.encode("a"));
  MS_ASSIGN_OR_RETURN(std::vector<int32_t> full,
                      tokenizer.encode("a", {.add_special_tokens = true}));
  const auto is_one_more = [&] { return full.size() > plain.size(); };
  if (is_one_more() && full.front() == out.bos_token) {
    out.add_bos_token = true;
    full.erase(full.begin());
  }
  if (is_one_more() && full.back() == out.eos_token) {
    out.add_eos_token = true;
    full.pop_back();
  }
  if (full == plain) return Status();
  return cannot_say("a tokenizer that adds more than its bos and eos tokens");
}

/// The first text on which the two differ; empty: none.
Result<std::string> first_difference(const Tokenizer& a, const Tokenizer& b,
                                     const GgufTokenizer& fields) {
  std::vector<std::string> texts(std::begin(kProbes), std::end(kProbes));
  for (size_t i = 0; i < fields.tokens.size() && texts.size() < 200; ++i) {
    const int32_t type = fields.token_types[i];
    if (type != kControl && type != kUserDefined) continue;
    texts.push_back("x" + fields.tokens[i] + " y " + fields.tokens[i] + "z");
  }
  for (const std::string& text : texts) {
    for (const bool add : {false, true}) {
      MS_ASSIGN_OR_RETURN(const auto left, a.encode(text, {.add_special_tokens = add}));
      MS_ASSIGN_OR_RETURN(const auto right, b.encode(text, {.add_special_tokens = add}));
      if (left != right) return text;
    }
  }
  return std::string();
}

Result<GgufTokenizer> checked(const Tokenizer& tokenizer, GgufTokenizer fields) {
  MS_ASSIGN_OR_RETURN(const auto back, Tokenizer::from_gguf(fields));
  MS_ASSIGN_OR_RETURN(const std::string text, first_difference(tokenizer, *back, fields));
  if (text.empty()) return fields;
  return cannot_say("a tokenizer of another kind (the text '" + text +
                    "' would become other tokens)");
}

}  // namespace

Result<GgufTokenizer> gguf_tokenizer_of(const Tokenizer& tokenizer, int64_t rows) {
  MS_ASSIGN_OR_RETURN(const Json json, json_of(tokenizer));
  const Json& model = json.at("model");
  const Json* type = member(model, "type");
  if (type == nullptr || *type != "BPE")
    return cannot_say("model type " + (type == nullptr ? "(none)" : json_text(*type)));
  GgufTokenizer out;
  out.bos_token = tokenizer.bos_token().value_or(-1);
  out.eos_token = tokenizer.eos_token().value_or(-1);
  out.padding_token = tokenizer.pad_token().value_or(-1);
  MS_RETURN_IF_ERROR(fill_tokens(model, json, rows, out));
  MS_RETURN_IF_ERROR(fill_merges(model, out));
  MS_RETURN_IF_ERROR(fill_surrounding(tokenizer, out));
  if (!is_true(model, "byte_fallback")) {
    out.model = "gpt2";
    MS_ASSIGN_OR_RETURN(out.pre, byte_level_name(json));
    return checked(tokenizer, std::move(out));
  }
  out.model = "llama";
  out.pre = "default";
  merges_to_scores(out);
  auto with_prefix = checked(tokenizer, out);
  if (with_prefix.ok()) return with_prefix;
  out.add_space_prefix = false;
  return checked(tokenizer, std::move(out));
}

}  // namespace mainspring

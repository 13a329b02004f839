#include "mainspring/text/byte_tokenizer.h"

#include <vector>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

void append_utf8(std::string& out, int code) {  // below U+0800
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  out.push_back(static_cast<char>(0xc0 | (code >> 6)));
  out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
}

// Byte-level vocabularies spell a byte as one visible character: itself if it is one in Latin-1,
// else the next free code point from U+0100 on.
std::vector<std::string> byte_spellings() {
  std::vector<std::string> spellings;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    append_utf8(spellings.emplace_back(), visible ? byte : next++);
  }
  return spellings;
}

}  // namespace

std::string byte_tokenizer_json() {
  Json vocabulary = Json::object();
  int id = 0;
  for (const std::string& spelling : byte_spellings()) vocabulary[spelling] = id++;
  const Json end = {{"id", id},        {"content", kByteEndOfText}, {"single_word", false},
                    {"lstrip", false}, {"rstrip", false},           {"normalized", false},
                    {"special", true}};
  const auto byte_level = [] {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", false}};
  };
  const Json root = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({end})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level()},
      {"post_processor", nullptr},
      {"decoder", byte_level()},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", std::move(vocabulary)},
        {"merges", Json::array()}}},
  };
  return json_text(root);
}

std::string byte_tokenizer_config_json() {
  const Json root = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"eos_token", kByteEndOfText},
                     {"clean_up_tokenization_spaces", false}};
  return json_text(root);
}

}  // namespace mainspring

// Tokenizers small enough to work out by hand, for the tests of text/.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/io/gguf_tokenizer.h"

namespace mainspring {

/// The character that byte-level vocabularies write for a byte, as UTF-8.
inline std::string byte_character(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
  };
  int code = byte;
  if (!is_printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += is_printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Byte-level: ids 0..255 are the bytes, 256 "ab", 257 "<|end|>" (control), 258 "<|start|>"
/// (control), 259
/// "<think>" (user defined).
inline GgufTokenizer byte_level_tokenizer() {
  GgufTokenizer gguf;
  gguf.model = "gpt2";
  gguf.pre = "smollm";
  for (int byte = 0; byte < 256; ++byte) gguf.tokens.push_back(byte_character(byte));
  gguf.token_types.assign(257, 1);
  for (const char* text : {"ab", "<|end|>", "<|start|>", "<think>"}) gguf.tokens.emplace_back(text);
  gguf.token_types.insert(gguf.token_types.end(), {3, 3, 4});
  gguf.merges = {"a b"};
  gguf.eos_token = 257;
  return gguf;
}

/// Sentencepiece: 0 <unk>, 1 <s>, 2 </s>, 3..258 the bytes, 259 "▁", 260 "a", 261 "b", 262 "▁a".
inline GgufTokenizer piece_tokenizer() {
  GgufTokenizer gguf;
  gguf.model = "llama";
  gguf.tokens = {"<unk>", "<s>", "</s>"};
  gguf.token_types = {2, 3, 3};
  const char* digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    gguf.tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    gguf.token_types.push_back(6);
  }
  for (const char* text : {"\u2581", "a", "b", "\u2581a"}) {
    gguf.tokens.emplace_back(text);
    gguf.token_types.push_back(1);
  }
  gguf.scores.assign(gguf.tokens.size(), 0.0F);
  gguf.bos_token = 1;
  gguf.eos_token = 2;
  gguf.unknown_token = 0;
  gguf.add_bos_token = true;
  return gguf;
}

}  // namespace mainspring

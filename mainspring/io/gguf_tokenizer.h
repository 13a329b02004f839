// GgufTokenizer: the tokenizer that a GGUF file carries in its metadata (tokenizer.ggml.*), as
// plain data.
//
// The one idea: io/ only reads and checks the fields; text/ turns them into a working tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

class GgufFile;

/// Fields keep GGUF's meaning. tokens, token_types and (if present) scores are equally long.
struct GgufTokenizer {
  std::string model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece BPE)
  std::string
      pre;  // the pre-tokenizer's name, such as "smollm", "llama-bpe", "qwen2"; may be empty
  std::vector<std::string> tokens;
  /// 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<int32_t> token_types;
  std::vector<float> scores;        // SentencePiece; empty for byte-level BPE
  std::vector<std::string> merges;  // "left right"
  int32_t bos_token = -1;           // -1: the file names none
  int32_t eos_token = -1;
  int32_t unknown_token = -1;
  int32_t padding_token = -1;
  int32_t eot_token = -1;
  bool add_bos_token = false;
  bool add_eos_token = false;
  bool add_space_prefix = true;
  std::string chat_template;  // empty: none
};

/// Errors: not found if the file has no tokenizer; invalid argument names a field whose type,
/// length or token number is wrong.
Result<GgufTokenizer> read_gguf_tokenizer(const GgufFile& file);

}  // namespace mainspring

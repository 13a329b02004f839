// A tokenizer made from nothing: one token per byte, and one that ends a text.
//
// The one idea: it is an ordinary tokenizer.json (byte-level BPE without merges), so everything
// that reads tokenizers reads it, here and elsewhere.
#pragma once

#include <string>

namespace mainspring {

inline constexpr const char* kByteEndOfText = "<|endoftext|>";  // id 256

/// A tokenizer.json whose ids 0 to 255 are the bytes and 256 ends a text.
std::string byte_tokenizer_json();

/// The tokenizer_config.json that goes with it.
std::string byte_tokenizer_config_json();

}  // namespace mainspring

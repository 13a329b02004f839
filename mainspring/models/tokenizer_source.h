// Reads what a model's files say about its tokenizer and chat templates, as text; text/ gives it a
// meaning.
#pragma once

#include <string>

#include "mainspring/base/status.h"
#include "mainspring/io/gguf.h"
#include "mainspring/models/loaded_model.h"

namespace mainspring {

/// tokenizer.json, tokenizer_config.json (chat_template as one text or a list of named ones,
/// special tokens as texts or objects), chat_template.jinja and additional_chat_templates/*.jinja,
/// which go before tokenizer_config.json's. A folder without any gives an empty source. Errors:
/// invalid argument with file and field.
Result<TokenizerSource> read_folder_tokenizer(const std::string& folder);

/// Whether the file says what its tokens are; llama.cpp's model "none" (or "no_vocab") does not.
bool has_gguf_tokenizer(const GgufFile& file);

/// From tokenizer.ggml.* and tokenizer.chat_template. Errors: as read_gguf_tokenizer.
Result<TokenizerSource> read_gguf_tokenizer_source(const GgufFile& file);

}  // namespace mainspring

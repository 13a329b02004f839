// A tokenizer as the fields of a GGUF file, for export.
//
// The one idea: GGUF names a family of pre-tokenizers instead of describing one, so a tokenizer is
// compared with what each known name stands for, and the result must give the same ids as the
// tokenizer itself on texts that tell families apart; otherwise it is refused.
#pragma once

#include <cstdint>

#include "mainspring/base/status.h"
#include "mainspring/io/gguf_tokenizer.h"
#include "mainspring/text/tokenizer.h"

namespace mainspring {

/// `rows` of the model's embedding; those without a token get placeholders of type 5 (unused).
/// chat_template and eot_token are left to the caller. Errors: unimplemented for a tokenizer that
/// GGUF cannot say with a known name; invalid argument if it has more tokens than rows.
Result<GgufTokenizer> gguf_tokenizer_of(const Tokenizer& tokenizer, int64_t rows);

}  // namespace mainspring

/* The C side of bridge/: tokenizers and chat templates of the Hugging Face ecosystem, behind plain
 * C calls.
 *
 * The one idea: declarations only, so that any folder above io/ may name them; mainspring/text/ is
 * the one that does, and it is what everybody else uses. bridge/src/lib.rs is the other side; the
 * two change together.
 *
 * Calls that return int give 0, or -1 with the reason in ms_bridge_last_error(); calls that return
 * a handle give null with the reason there. Whatever a call fills is owned by the bridge until the
 * matching free. Handles are immutable: any number of threads may use one at once, and free it
 * after the last call returned.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MsTokenizer MsTokenizer;
typedef struct MsTemplate MsTemplate;

/* Borrowed bytes; data may be null when size is 0. */
typedef struct MsSlice {
  const char* data;
  size_t size;
} MsSlice;

typedef struct MsText {
  char* data;
  size_t size;
} MsText;

/* ids[i] came from bytes [begins[i], ends[i]) of the input; both null unless MS_ENCODE_WITH_RANGES
 * was given. */
typedef struct MsEncoding {
  uint32_t* ids;
  uint32_t* begins;
  uint32_t* ends;
  size_t size;
} MsEncoding;

/* spans holds num_spans pairs: byte ranges of text that came from generation blocks. */
typedef struct MsRendered {
  MsText text;
  uint32_t* spans;
  size_t num_spans;
} MsRendered;

enum {
  MS_ENCODE_ADD_SPECIAL = 1, /* what the post-processor adds, such as BOS */
  MS_ENCODE_PLAIN_TEXT = 2,  /* special tokens spelled out in the text are ordinary text */
  MS_ENCODE_WITH_RANGES = 4,
};

enum {
  MS_DECODER_BYTES = 0,  /* a token is a fixed byte string */
  MS_DECODER_PIECES = 1, /* sentencepiece with byte fallback: runs of byte tokens decode together */
  MS_DECODER_WHOLE = 2,  /* only a whole sequence decodes */
};

/* The reason of this thread's last failing call; valid until its next failing call. */
const char* ms_bridge_last_error(void);

void ms_text_free(MsText* text);
void ms_encoding_free(MsEncoding* encoding);
void ms_rendered_free(MsRendered* rendered);

/* From the text of a tokenizer.json. */
MsTokenizer* ms_tokenizer_from_json(MsSlice json);
/* From a JSON object of GGUF's tokenizer.ggml.* keys without their prefix. */
MsTokenizer* ms_tokenizer_from_gguf(MsSlice parts);
void ms_tokenizer_free(MsTokenizer* tokenizer);

int ms_tokenizer_encode(const MsTokenizer* tokenizer, MsSlice text, uint32_t flags,
                        MsEncoding* out);
/* Fills outs[0, num_texts); each is freed on its own. On failure none is filled. */
int ms_tokenizer_encode_batch(const MsTokenizer* tokenizer, const MsSlice* texts, size_t num_texts,
                              uint32_t flags, MsEncoding* outs);
/* Ids without a token contribute nothing. */
int ms_tokenizer_decode(const MsTokenizer* tokenizer, const uint32_t* ids, size_t num_ids,
                        int skip_special, MsText* out);
/* The token as the vocabulary spells it; fails for an id without a token. */
int ms_tokenizer_token(const MsTokenizer* tokenizer, uint32_t id, MsText* out);
/* The bytes a token adds to the text; for MS_DECODER_BYTES. */
int ms_tokenizer_token_bytes(const MsTokenizer* tokenizer, uint32_t id, MsText* out);
/* The id of a token's exact spelling, or -1. */
int64_t ms_tokenizer_id(const MsTokenizer* tokenizer, MsSlice token);
/* One more than the largest id, added tokens included. */
uint32_t ms_tokenizer_vocab_size(const MsTokenizer* tokenizer);
int ms_tokenizer_is_special(const MsTokenizer* tokenizer, uint32_t id);
int ms_tokenizer_decoder_kind(const MsTokenizer* tokenizer);
/* The tokenizer as a tokenizer.json. */
int ms_tokenizer_to_json(const MsTokenizer* tokenizer, MsText* out);

MsTemplate* ms_template_compile(MsSlice source);
void ms_template_free(MsTemplate* chat_template);
/* 1 if the template marks the assistant's text with {% generation %}. */
int ms_template_has_generation(const MsTemplate* chat_template);
/* Renders with the variables of a JSON object; strftime_now in the template shows now_unix_s in
 * local time. */
int ms_template_render(const MsTemplate* chat_template, MsSlice context, int64_t now_unix_s,
                       MsRendered* out);

#ifdef __cplusplus
} /* extern "C" */
#endif

#!/usr/bin/env python3
"""Tokenizers for three of the tiny models, with the ids and chat texts that transformers gives for them.

  python make_tiny_tokenizers.py [TINY_DIR]        (default: tiny/ beside this script; run make_tiny_models.py first)

Each is a byte-level BPE of at most 320 tokens and differs from the others where real folders differ:
  llama_tied         chat template inside tokenizer_config.json, special tokens as plain strings, ids 0..2 special
  qwen2              chat template in chat_template.jinja, NFC normalizer, a split regex, special tokens at the end of the vocabulary
  llama_rope_llama3  a post-processor that puts the bos token first, ignore_merges, special tokens as objects; the template writes the bos itself
Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json where asked, chat_template.jinja and tokenizer_golden.json.
"""
import json, os, sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

import golden_common as G

CORPUS = ["the river and the stone are old, and the sea is not", "what is the name of the bird? it is a small bird", "return 1 + 2; def f(x): return x * 10",
          "once upon a time there was a house on the hill", "the user asks and the assistant answers", "3.14159 is not 22/7, it is less"] * 8
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
CHATML_SYSTEM = """{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\\nYou are a tiny model.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
HEADERS = ("{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}"
           "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = ["", " ", "the river", "The old stone\r\nis 1234567 years old", "naïve café, e\u0301 and é", "日本語 and עברית", "👩‍👩‍👧 x", "  two  spaces\t\ttabs\n\n\nlines  ",
         "it's we'll I'D", "<|im_start|>user\nhi<|im_end|>\n", "<|begin_of_text|>x<|eot_id|>", "<|im_start", "a\u0000b", "x" * 100]
CHATS = [[dict(role="user", content="what is the name of the bird?")],
         [dict(role="system", content="answer in one word"), dict(role="user", content="  the sea?  "), dict(role="assistant", content="old"), dict(role="user", content="<|im_end|> and?")]]


def train(vocab_size, specials, regex=None, normalizer=None, specials_last=False, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex is None)
    t.pre_tokenizer = byte_level if regex is None else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), byte_level])
    t.decoder = decoders.ByteLevel()
    if normalizer is not None:
        t.normalizer = normalizer
    first = [] if specials_last else specials
    n = vocab_size - (len(specials) if specials_last else 0)
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=n, special_tokens=first, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    assert t.get_vocab_size() <= vocab_size
    return t


def write(folder, tokenizer, config, jinja=None, special_map=None):
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    G.write_json(os.path.join(folder, "tokenizer_config.json"), config)
    if special_map:
        G.write_json(os.path.join(folder, "special_tokens_map.json"), special_map)
    if jinja:
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8", newline="\n") as f:
            f.write(jinja)
    tok = AutoTokenizer.from_pretrained(folder)
    cases = []
    for x in TEXTS:
        ids = tok(x)["input_ids"]
        bare = tok(x, add_special_tokens=False)["input_ids"]
        cases.append(dict(text=x, ids=ids, ids_without_added=bare, ids_plain=tok(x, add_special_tokens=False, split_special_tokens=True)["input_ids"],
                          decoded=tok.decode(bare, clean_up_tokenization_spaces=False), decoded_skip_special=tok.decode(bare, skip_special_tokens=True, clean_up_tokenization_spaces=False)))
    chats = [dict(messages=m, add_generation_prompt=g, text=tok.apply_chat_template(m, tokenize=False, add_generation_prompt=g),
                  ids=tok.apply_chat_template(m, tokenize=True, add_generation_prompt=g)["input_ids"]) for m in CHATS for g in (False, True)]
    G.write_json(os.path.join(folder, "tokenizer_golden.json"), dict(vocab_size=len(tok), bos_token_id=tok.bos_token_id, eos_token_id=tok.eos_token_id, cases=cases, chats=chats))
    print(os.path.basename(folder), len(tok), [len(c["ids"]) for c in cases])


def main():
    tiny = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny")
    chat = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    write(os.path.join(tiny, "llama_tied"), train(320, chat),
          dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<|im_start|>", eos_token="<|im_end|>", unk_token="<|endoftext|>", pad_token="<|im_end|>",
               model_max_length=256, clean_up_tokenization_spaces=False, chat_template=CHATML))
    write(os.path.join(tiny, "qwen2"), train(312, chat, regex=SPLIT, normalizer=normalizers.NFC(), specials_last=True),
          dict(tokenizer_class="PreTrainedTokenizerFast", bos_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=256,
               clean_up_tokenization_spaces=False, additional_special_tokens=["<|im_start|>", "<|im_end|>"]), jinja=CHATML_SYSTEM)
    heads = ["<|end_of_text|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]
    t = train(320, heads, ignore_merges=True)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B:1", special_tokens=[("<|begin_of_text|>", 1)])])
    special = {k: dict(content=v, lstrip=False, normalized=False, rstrip=False, single_word=False)
               for k, v in dict(bos_token="<|begin_of_text|>", eos_token="<|eot_id|>").items()}
    decoder = {str(i): dict(content=s, lstrip=False, normalized=False, rstrip=False, single_word=False, special=True) for i, s in enumerate(heads)}
    write(os.path.join(tiny, "llama_rope_llama3"), t,
          dict(tokenizer_class="PreTrainedTokenizerFast", added_tokens_decoder=decoder, model_max_length=256, clean_up_tokenization_spaces=False, chat_template=HEADERS,
               **{k: dict(__type="AddedToken", **v) for k, v in special.items()}), special_map=special)


if __name__ == "__main__":
    main()

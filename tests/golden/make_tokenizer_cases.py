#!/usr/bin/env python3
"""Texts that tokenizers get wrong, with the ids that transformers' AutoTokenizer gives for SmolLM2's tokenizer built from its GGUF file.

  python make_tokenizer_cases.py MODEL.gguf [OUT_DIR]        (default OUT_DIR: tokenizer/ beside this script)

cases.jsonl: name; text, or repeat = [string, times]; ids, or count and sha256 (of the ids in decimal joined by commas) when there are more
than 2,000; ids_plain when control tokens in the text, taken as text, give other ids (split_special_tokens; count_plain/sha256_plain when
long); decoded and decoded_skip_special when they differ from the text (no clean-up of blanks).
decode.jsonl: name, ids, decoded, decoded_skip_special: id sequences that no text gives, cut characters included.
"""
import hashlib, json, os, random, sys

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

PYTHON = '''def f(x: int) -> str:
\t"""Doc: 'x'."""
    if x >= 10_000 and not x % 2:   # two spaces
        return f"{x!r:>10}\\n"
    return "a" + 'b' * 0x1F
'''
CPP = "template <class T> auto g(T&& t) -> decltype(t.h())\r\n{\r\n\treturn std::forward<T>(t).h() << 3; // \\u00e9\r\n}\r\n"
TEXTS = {
    "empty": "", "space": " ", "newline": "\n", "one_letter": "a", "hello": "Hello, world!", "leading_space": " Hello", "trailing_space": "Hello ",
    "contractions": "I'm you're he's we'll they'd I've can't DON'T it’s 'tis rock'n'roll O'Neil's",
    "digits": "0 1 12 123 1234 12345678901234567890 3.14159 1,000,000 1e-10 0x1F 2024-07-04 ٣٤٥ ४५ ½ ² ⅷ 一二三",
    "punctuation": "...!!??--__**``~~@@##$$%%^^&&()[]{}<>|\\/;:'\",.¡¿«»“”‘’…—–",
    "whitespace_runs": "a  b   c    d\t\te \t f\n\n\ng\n \n h  \n", "only_spaces": " " * 17, "only_newlines": "\n" * 9, "only_tabs": "\t" * 6,
    "space_kinds": "a\u00a0b\u2003c\u200bd\u3000e\u2028f\u2029g\u0085h\ufeffi\u180ej\u1680k\u202fl", "vertical_space": "a\u000bb\u000cc",
    "crlf": "one\r\ntwo\r\n\r\nthree\rfour\n\rfive", "control_characters": "".join(chr(i) for i in range(1, 32)) + "\x7f\x80\x9f", "nul": "a\x00b\x00\x00c",
    "emoji": "😀😃👍🏽🎉❤️☺️🇫🇷🇯🇵1️⃣#️⃣", "emoji_zwj": "👩‍👩‍👧‍👦 👨🏾‍🚀 🏳️‍🌈 🧑‍⚕️ 🏴󠁧󠁢󠁳󠁣󠁴󠁿", "emoji_in_words": "hi👋there😀!ok", "emoji_new": "🫠🫨🪿🫷",
    "combining": "e\u0301 o\u0308\u0304 a\u0323\u0302 n\u0303 \u0301alone q\u0307\u0323 Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324",
    "precomposed": "é ö ậ ñ ﬁ ﬃ Å Å K Ω ſ ß ẞ İ ı ǆ", "fullwidth": "ＡＢＣ１２３！ ﾊﾛｰ ㍿ ① Ⅳ", "hangul": "안녕하세요 \u1112\u1161\u11ab 각 ᄀᆞᆨ",
    "chinese": "你好，世界！机器学习很有趣。𠮷𡈽𪚥", "japanese": "こんにちは、世界。カタカナ ｶﾞ が か\u3099 日本語123テスト", "thai": "สวัสดีชาวโลก ภาษาไทย", "hindi": "नमस्ते दुनिया क्षत्रिय ज्ञ", "tamil": "வணக்கம் உலகம்",
    "khmer": "សួស្តីពិភពលោក", "arabic": "مرحبا بالعالم ١٢٣ لا إلٰه", "hebrew": "שלום עולם שָׁלוֹם", "bidi": "abc \u202eשלום\u202c def \u2067مرحبا\u2069 \u200e\u200f", "persian": "می\u200cخواهم کتاب‌ها", "russian": "Привет, мир! Ёжик №5",
    "greek": "Γειά σου Κόσμε ΌΣΟΣ ὦ", "turkish": "İstanbul'da ığdır DİYARBAKIR", "vietnamese": "Tiếng Việt có dấu: ường, ễ", "georgian": "გამარჯობა მსოფლიო", "ethiopic": "ሰላም ልዑል", "cuneiform": "𒀀𒁀𓀀𐎠", "math": "∀x∈ℝ: ∫₀^∞ e^{-x²}dx = √π/2 ≤ 1 ≠ ∅ 𝔸𝕓𝒞𝓭",
    "private_use": "\ue000\uf8ff\U000f0000\U0010fffd", "noncharacters": "\ufffe\uffff\U0001fffe\U0010ffff", "replacement": "\ufffd\ufffd a\ufffdb", "tags_and_selectors": "x\ufe0ey\ufe0fz\U000e0100", "highest": "\U0010ffff\U0001f9ff\ud7ff\ue000",
    "surrogate_text": "\\ud83d\\ude00 is not an emoji here", "bom": "\ufeffstart", "latin1_mojibake": "cafÃ© â€œquoteâ€\u009d",
    "python": PYTHON, "cpp": CPP, "json": '{"a": [1, 2.5, null, true], "b\\u00e9": "x\\ny", "c": {}}', "html": "<p class=\"x\">A &amp; B</p><!-- c --><br/>", "latex": "\\frac{a}{b} \\begin{align} x &= y \\\\ \\end{align}",
    "shell": "for f in *.txt; do cat \"$f\" | grep -E '^[a-z]+\\s' > /dev/null 2>&1; done", "sql": "SELECT * FROM t WHERE a<>'b''c' AND d IS NOT NULL; -- end", "regex": "(?i:[^\\r\\n\\p{L}]?\\p{L}+|\\d{1,3})$", "url": "https://example.com/a/b?c=d&e=%20f#g_h-1~", "mail": "a.b+c@example.co.uk",
    "camel_snake": "camelCaseIdentifier snake_case_identifier SCREAMING_SNAKE kebab-case HTTPServer2XML v1.2.3-rc.1", "markdown": "# T\n\n- [x] **b** _i_ `c`\n  1. n\n\n> q\n\n| a | b |\n|---|---|\n",
    "control_tokens": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "control_inside": "please ignore <|im_end|> and<|im_start|>system now<|endoftext|>", "control_glued": "a<|im_end|>b<|im_end|><|im_end|>c",
    "control_broken": "<|im_start| ><|im_ start|><|im_end<|im_end|>|> <|IM_END|> ＜|im_end|＞", "control_spaces": "x  <|im_end|>  y \n<|im_start|>\n z", "control_others": "<repo_name>r<filename>a.py<gh_stars>5<jupyter_code>1+1<empty_output><file_sep><reponame><issue_start><issue_comment><issue_closed><jupyter_start><jupyter_text><jupyter_output><jupyter_script>",
    "control_unicode_near": "é<|im_end|>\u0301e", "byte_fallback_lookalike": "<0x0A><0xE2> Ġword Ċ ĉ Â ▁under", "camel_bytes": "ĠĊĉ", "repeat_word": "the the the the the The THE thE", "long_word": "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen pneumonoultramicroscopicsilicovolcanoconiosis",
    "long_number": "9" * 75, "alternating": "ab" * 60, "a_1_a_1": "a1b2c3d4e5 1a 2b 3rd 4th", "quotes_nested": "\"'`\"'`''\"\"``", "newline_space_mix": " \n  \n   \n    x", "space_before_punct": "a , b . c ! d ' s 's  's", "tail_whitespace": "end   \t\n",
}
REPEATS = {"letter_100k": ["a", 100000], "letter_z_100k": ["z", 100000], "spaces_100k": [" ", 100000], "newlines_100k": ["\n", 100000], "digits_100k": ["7", 100000], "emoji_20k": ["👍", 20000], "combining_50k": ["\u0301", 50000],
           "word_20k": ["word ", 20000], "control_5k": ["<|im_end|>", 5000], "cjk_30k": ["漢", 30000], "crlf_20k": ["\r\n", 20000], "mixed_5k": ["aé日👍1 \n", 5000]}
DECODES = {"cut_emoji": ("😀", 1), "cut_emoji_two": ("x😀", -1), "cut_cjk": ("a𠮷", -1), "cut_zwj": ("👩‍👩‍👧", -2)}


def digest(ids):
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def put_ids(row, ids, suffix=""):
    if len(ids) <= 2000:
        row["ids" + suffix] = ids
    else:
        row["count" + suffix], row["sha256" + suffix] = len(ids), digest(ids)


def random_texts(n=60, seed=5):
    """Random mixtures of difficult alphabets: what a fuzzer would try."""
    r = random.Random(seed)
    pools = ["abcdefghij XYZ", "0123456789 ", " \t\n\r", "éàü߿ñ", "日本語中文字", "שלוםمرحبا", "😀👍🏽\u200d❤\ufe0f", "\u0301\u0308\u0323", ".,;:!?'\"-_/\\", "<|im_start|><|im_end|>"]
    out = {}
    for i in range(n):
        parts = []
        for _ in range(r.randint(1, 12)):
            pool = r.choice(pools)
            parts.append(pool if pool.startswith("<|") and r.random() < 0.3 else "".join(r.choice(pool) for _ in range(r.randint(1, 8))))
        out[f"random_{i}"] = "".join(parts)
    return out


def main():
    gguf = os.path.abspath(sys.argv[1])
    out = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")
    tok = AutoTokenizer.from_pretrained(os.path.dirname(gguf), gguf_file=os.path.basename(gguf))
    # transformers 5.24 does not know the pre-tokenizer that the file names, "smollm", and falls back to plain byte-level splitting. The
    # model's own tokenizer.json, which its training data went through, cuts every digit off first (as does llama.cpp).
    tok.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    decode = lambda ids, skip=False: tok.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
    encode = lambda text, plain=False: tok(text, add_special_tokens=False, **({"split_special_tokens": True} if plain else {}))["input_ids"]
    rows = []
    for name, text in {**TEXTS, **random_texts(), **{n: s * k for n, (s, k) in REPEATS.items()}}.items():
        row = dict(name=name, **({"repeat": REPEATS[name]} if name in REPEATS else {"text": text}))
        ids, plain = encode(text), encode(text, True)
        put_ids(row, ids)
        if plain != ids:
            put_ids(row, plain, "_plain")
        back, skip = decode(ids), decode(ids, True)
        if back != text:
            row["decoded"] = back
        if skip != back:
            row["decoded_skip_special"] = skip if len(skip) < 5000 else None
        rows.append(row)
        assert tok(text)["input_ids"] == ids, "the tokenizer adds tokens of its own"
    with open(os.path.join(out, "cases.jsonl"), "w", encoding="utf-8", newline="\n") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    decodes = []
    for name, (text, cut) in DECODES.items():
        ids = encode(text)
        decodes.append((name, ids[:cut] if cut < 0 else ids[:-cut]))
        decodes.append((name + "_tail", ids[1:]))
        decodes.append((name + "_then_text", ids[:-1] + encode("ok")))
    r = random.Random(6)
    decodes += [(f"random_{i}", [r.randrange(len(tok)) for _ in range(24)]) for i in range(40)]
    decodes += [("specials", list(range(17))), ("bytes", [tok.convert_tokens_to_ids(c) for c in "ĠĊÂðŁĺĢ"]), ("none", [])]
    with open(os.path.join(out, "decode.jsonl"), "w", encoding="utf-8", newline="\n") as f:
        for name, ids in decodes:
            f.write(json.dumps(dict(name=name, ids=ids, decoded=decode(ids), decoded_skip_special=decode(ids, True)), ensure_ascii=False) + "\n")
    import golden_common as G
    G.write_json(os.path.join(out, "versions.json"), G.versions("python make_tokenizer_cases.py MODEL.gguf; python make_chat_cases.py SMOLLM2_FOLDER",
                 gguf_sha256=hashlib.sha256(open(gguf, "rb").read()).hexdigest(), vocab_size=len(tok), jinja2=__import__("jinja2").__version__))
    print(len(rows), "texts,", sum(r.get("count", len(r.get("ids", []))) for r in rows), "tokens;", len(decodes), "decode cases;",
          sum("decoded" in r for r in rows), "do not come back;", sum("ids_plain" in r or "count_plain" in r for r in rows), "with control tokens")
    print([ (r["name"], r["decoded"][:30]) for r in rows if "decoded" in r])


if __name__ == "__main__":
    main()

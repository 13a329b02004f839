//! A tokenizer built out of the metadata of a GGUF file.
//!
//! GGUF keeps the vocabulary, the merges and llama.cpp's name for the pre-tokenizer, not a tokenizer.json. Each name
//! stands for the pipeline in the tokenizer.json of the models that carry it, so ids equal those of the original
//! repository. An unknown name is refused: a wrong split trains a model on other tokens without any error.

use crate::error::Failure;
use ahash::AHashMap;
use serde::Deserialize;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

/// What `mainspring/text/` hands over: the `tokenizer.ggml.*` keys, without their prefix.
#[derive(Deserialize)]
struct Parts {
    model: String,
    #[serde(default)]
    pre: Option<String>,
    tokens: Vec<String>,
    #[serde(default)]
    token_type: Vec<i32>,
    #[serde(default)]
    merges: Vec<String>,
    #[serde(default)]
    scores: Vec<f32>,
    #[serde(default)]
    bos_token_id: Option<u32>,
    #[serde(default)]
    eos_token_id: Option<u32>,
    #[serde(default)]
    unknown_token_id: Option<u32>,
    #[serde(default)]
    add_bos_token: Option<bool>,
    #[serde(default)]
    add_eos_token: Option<bool>,
    #[serde(default)]
    add_space_prefix: Option<bool>,
}

const LLAMA3_SPLIT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2_SPLIT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// How a byte-level family splits text before its merges apply.
enum ByteLevelSplit {
    Gpt2,
    DigitsThenGpt2,
    Regex(&'static str),
}

struct ByteLevelFamily {
    names: &'static [&'static str],
    split: ByteLevelSplit,
    nfc: bool,
    /// A piece that is a token stays whole even where no merges lead to it.
    ignore_merges: bool,
    add_bos: bool,
}

const BYTE_LEVEL_FAMILIES: &[ByteLevelFamily] = &[
    ByteLevelFamily {
        names: &["smollm"],
        split: ByteLevelSplit::DigitsThenGpt2,
        nfc: false,
        ignore_merges: false,
        add_bos: false,
    },
    ByteLevelFamily {
        names: &["llama-bpe", "llama3", "llama-v3"],
        split: ByteLevelSplit::Regex(LLAMA3_SPLIT),
        nfc: false,
        ignore_merges: true,
        add_bos: true,
    },
    ByteLevelFamily {
        names: &["qwen2", "deepseek-r1-qwen"],
        split: ByteLevelSplit::Regex(QWEN2_SPLIT),
        nfc: true,
        ignore_merges: false,
        add_bos: false,
    },
    ByteLevelFamily {
        names: &["gpt-2"],
        split: ByteLevelSplit::Gpt2,
        nfc: false,
        ignore_merges: false,
        add_bos: false,
    },
];

const TYPE_CONTROL: i32 = 3;
const TYPE_USER_DEFINED: i32 = 4;

/// Builds the tokenizer that a GGUF file describes, from its keys as one JSON object.
pub fn tokenizer_from_gguf_parts(json: &[u8]) -> Result<Tokenizer, Failure> {
    let parts: Parts =
        serde_json::from_slice(json).map_err(|e| Failure::new(format!("GGUF tokenizer: {e}")))?;
    if !parts.token_type.is_empty() && parts.token_type.len() != parts.tokens.len() {
        return Err(Failure::new(format!(
            "GGUF tokenizer: {} token types for {} tokens",
            parts.token_type.len(),
            parts.tokens.len()
        )));
    }
    match parts.model.as_str() {
        "gpt2" => byte_level(parts),
        "llama" => sentencepiece(parts),
        other => Err(Failure::new(format!(
            "GGUF tokenizer: model '{other}' is not supported; known: gpt2 (byte-level BPE), llama (sentencepiece BPE)"
        ))),
    }
}

fn vocabulary(tokens: &[String]) -> AHashMap<String, u32> {
    tokens.iter().enumerate().map(|(i, t)| (t.clone(), i as u32)).collect()
}

/// "a b" to ("a", "b"); the cut is the first blank after the first character, since a piece may itself be a blank.
fn split_merges(merges: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let cut = |m: &String| {
        let first = m.chars().next().map_or(0, char::len_utf8);
        m.get(first..)
            .and_then(|rest| rest.find(' '))
            .map(|at| (m[..first + at].to_string(), m[first + at + 1..].to_string()))
            .ok_or_else(|| Failure::new(format!("GGUF tokenizer: merge '{m}' is not two pieces")))
    };
    merges.iter().map(cut).collect()
}

fn byte_level(parts: Parts) -> Result<Tokenizer, Failure> {
    let name = parts.pre.as_deref().unwrap_or("gpt-2");
    let family = BYTE_LEVEL_FAMILIES.iter().find(|f| f.names.contains(&name)).ok_or_else(|| {
        let known: Vec<&str> = BYTE_LEVEL_FAMILIES.iter().flat_map(|f| f.names.iter().copied()).collect();
        Failure::new(format!(
            "GGUF tokenizer: pre-tokenizer '{name}' is not supported; known: {}. Use the model's Hugging Face folder, \
             whose tokenizer.json says how to split",
            known.join(", ")
        ))
    })?;
    if parts.merges.is_empty() {
        return Err(Failure::new("GGUF tokenizer: tokenizer.ggml.merges is missing"));
    }
    let bpe = BPE::builder()
        .vocab_and_merges(vocabulary(&parts.tokens), split_merges(&parts.merges)?)
        .ignore_merges(family.ignore_merges)
        .build()?;
    let mut tokenizer = Tokenizer::new(bpe);
    if family.nfc {
        tokenizer.with_normalizer(Some(NFC))?;
    }
    let plain = ByteLevel::new(false, true, false);
    let steps: Vec<PreTokenizerWrapper> = match family.split {
        ByteLevelSplit::Gpt2 => vec![ByteLevel::new(false, true, true).into()],
        ByteLevelSplit::DigitsThenGpt2 => {
            vec![Digits::new(true).into(), ByteLevel::new(false, true, true).into()]
        }
        ByteLevelSplit::Regex(regex) => {
            let pattern = SplitPattern::Regex(regex.to_string());
            vec![Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into(), plain.into()]
        }
    };
    tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    finish(tokenizer, &parts, family.add_bos)
}

fn sentencepiece(parts: Parts) -> Result<Tokenizer, Failure> {
    let vocab = vocabulary(&parts.tokens);
    let merges = if parts.merges.is_empty() {
        merges_from_scores(&parts, &vocab)?
    } else {
        split_merges(&parts.merges)?
    };
    let unknown = parts.unknown_token_id.unwrap_or(0) as usize;
    let unknown = parts.tokens.get(unknown).cloned().unwrap_or_else(|| "<unk>".to_string());
    let bpe = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .unk_token(unknown)
        .fuse_unk(true)
        .byte_fallback(true)
        .build()?;
    let mut tokenizer = Tokenizer::new(bpe);
    let prefix = parts.add_space_prefix.unwrap_or(true);
    let scheme = if prefix { PrependScheme::First } else { PrependScheme::Never };
    tokenizer.with_pre_tokenizer(Some(Metaspace::new('\u{2581}', scheme, false)));
    let mut steps: Vec<DecoderWrapper> =
        vec![Replace::new("\u{2581}", " ")?.into(), ByteFallback::new().into(), Fuse::new().into()];
    if prefix {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    tokenizer.with_decoder(Some(DecoderSequence::new(steps)));
    finish(tokenizer, &parts, true)
}

/// Sentencepiece files carry a score per token and no merges; every cut of a token into two tokens is a merge, and
/// better scores merge first.
fn merges_from_scores(
    parts: &Parts,
    vocab: &AHashMap<String, u32>,
) -> Result<Vec<(String, String)>, Failure> {
    if parts.scores.len() != parts.tokens.len() {
        return Err(Failure::new(format!(
            "GGUF tokenizer: neither merges nor a score per token ({} scores for {} tokens)",
            parts.scores.len(),
            parts.tokens.len()
        )));
    }
    let mut found: Vec<(f32, &str, &str)> = Vec::new();
    for (token, &score) in parts.tokens.iter().zip(&parts.scores) {
        let first = found.len();
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if vocab.contains_key(left) && vocab.contains_key(right) {
                found.push((score, left, right));
            }
        }
        found[first..].sort_by_key(|&(_, left, right)| (vocab[left], vocab[right]));
    }
    let chars = |s: &str| s.chars().count();
    found.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| chars(b.1).cmp(&chars(a.1)))
            .then_with(|| chars(b.2).cmp(&chars(a.2)))
    });
    Ok(found.into_iter().map(|(_, left, right)| (left.to_string(), right.to_string())).collect())
}

/// Marks the added tokens and sets what is put around a text when special tokens are asked for.
fn finish(mut tokenizer: Tokenizer, parts: &Parts, add_bos_by_default: bool) -> Result<Tokenizer, Failure> {
    let of_type = |wanted: i32| {
        let special = wanted == TYPE_CONTROL;
        let pairs = parts.tokens.iter().zip(&parts.token_type);
        let tokens: Vec<AddedToken> = pairs
            .filter(|&(_, &t)| t == wanted)
            .map(|(text, _)| AddedToken::from(text.clone(), special).normalized(false))
            .collect();
        tokens
    };
    tokenizer.add_special_tokens(of_type(TYPE_CONTROL))?;
    tokenizer.add_tokens(of_type(TYPE_USER_DEFINED))?;

    let token = |id: Option<u32>| id.and_then(|i| parts.tokens.get(i as usize).cloned().zip(Some(i)));
    let bos = token(parts.bos_token_id).filter(|_| parts.add_bos_token.unwrap_or(add_bos_by_default));
    let eos = token(parts.eos_token_id).filter(|_| parts.add_eos_token.unwrap_or(false));
    if bos.is_none() && eos.is_none() {
        return Ok(tokenizer);
    }
    let piece = |t: &Option<(String, u32)>, kind: u32| {
        t.iter().map(|(text, _)| format!("{text}:{kind}")).collect::<Vec<String>>()
    };
    let single = [piece(&bos, 0), vec!["$A:0".to_string()], piece(&eos, 0)].concat();
    let second = [piece(&bos, 1), vec!["$B:1".to_string()], piece(&eos, 1)].concat();
    let pair = [single.clone(), second].concat();
    let special: Vec<(String, u32)> = bos.into_iter().chain(eos).collect();
    let processor = TemplateProcessing::builder()
        .try_single(single)
        .and_then(|b| b.try_pair(pair))
        .map_err(|e| Failure::new(format!("GGUF tokenizer: {e}")))?
        .special_tokens(special)
        .build()
        .map_err(|e| Failure::new(format!("GGUF tokenizer: {e}")))?;
    tokenizer.with_post_processor(Some(processor));
    Ok(tokenizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All 256 byte tokens, then "ab", then a control token and a user-defined one.
    fn tiny(pre: &str) -> serde_json::Value {
        let printable = |b: &u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        let mut tokens: Vec<String> =
            (0..256u32).filter(printable).filter_map(char::from_u32).map(String::from).collect();
        tokens.extend((256..324u32).filter_map(char::from_u32).map(String::from));
        tokens.extend(["ab", "12", "<|end|>", "<think>"].map(String::from));
        let mut types = vec![1; 258];
        types.extend([3, 4]);
        serde_json::json!({"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": types,
            "merges": ["a b", "1 2"], "bos_token_id": 258, "eos_token_id": 258})
    }

    fn ids(parts: &serde_json::Value, text: &str, add_special: bool) -> Vec<u32> {
        let tokenizer = tokenizer_from_gguf_parts(parts.to_string().as_bytes()).unwrap();
        tokenizer.encode(text, add_special).unwrap().get_ids().to_vec()
    }

    #[test]
    fn control_and_user_defined_tokens_stay_whole() {
        assert_eq!(ids(&tiny("smollm"), "ab<|end|><think>", false), [256, 258, 259]);
    }

    #[test]
    fn smollm_cuts_every_digit_and_gpt2_does_not() {
        let one_two = |pre| ids(&tiny(pre), "12", false).len();
        assert_eq!(one_two("smollm"), 2);
        assert_eq!(one_two("gpt-2"), 1);
        assert_eq!(one_two("llama-bpe"), 1);
        assert_eq!(one_two("qwen2"), 2);
    }

    #[test]
    fn llama3_adds_its_bos_unless_the_file_says_otherwise() {
        let mut parts = tiny("llama-bpe");
        assert_eq!(ids(&parts, "ab", true), [258, 256]);
        parts["add_bos_token"] = false.into();
        assert_eq!(ids(&parts, "ab", true), [256]);
        parts["add_eos_token"] = true.into();
        assert_eq!(ids(&parts, "ab", true), [256, 258]);
    }

    #[test]
    fn an_unknown_pre_tokenizer_is_refused_with_the_known_names() {
        let failure = tokenizer_from_gguf_parts(tiny("bloom").to_string().as_bytes()).err().unwrap();
        assert!(failure.0.contains("'bloom'") && failure.0.contains("smollm"), "{failure}");
    }

    #[test]
    fn a_sentencepiece_vocabulary_merges_by_score_and_falls_back_to_bytes() {
        let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
        tokens.extend((0..256).map(|b| format!("<0x{b:02X}>")));
        tokens.extend(["\u{2581}", "a", "b", "ab", "\u{2581}ab"].map(String::from));
        let mut types = vec![2, 3, 3];
        types.extend(vec![6; 256]);
        types.extend(vec![1; 5]);
        let mut scores = vec![0.0; 259];
        scores.extend([-3.0, -4.0, -5.0, -1.0, -2.0]);
        let parts = serde_json::json!({"model": "llama", "tokens": tokens, "token_type": types, "scores": scores,
            "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0});
        let tokenizer = tokenizer_from_gguf_parts(parts.to_string().as_bytes()).unwrap();
        let encoding = tokenizer.encode("ab\u{e9}", true).unwrap();
        assert_eq!(encoding.get_ids(), [1, 263, 3 + 0xC3, 3 + 0xA9]);
        assert_eq!(tokenizer.decode(encoding.get_ids(), true).unwrap(), "ab\u{e9}");
    }
}

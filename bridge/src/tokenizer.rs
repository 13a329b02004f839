//! One tokenizer, with the two encodings a caller may want: control tokens in the text honoured, or spelled out.

use crate::error::Failure;
use std::sync::OnceLock;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::{Encoding, Tokenizer};

/// Adds what the post-processor adds (BOS and the like).
pub const ADD_SPECIAL: u32 = 1;
/// Special tokens written out in the text become ordinary text.
pub const PLAIN_TEXT: u32 = 2;
/// Returns the byte range of each token.
pub const WITH_RANGES: u32 = 4;

/// How ids turn into text, as far as streaming cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecoderKind {
    /// Byte-level: a token is a fixed byte string; the text is their concatenation, lossily decoded.
    Bytes = 0,
    /// Sentencepiece with byte fallback: runs of byte tokens decode together.
    Pieces = 1,
    /// Anything else: only a whole sequence decodes.
    Whole = 2,
}

pub struct Encoded {
    pub ids: Vec<u32>,
    pub ranges: Option<(Vec<u32>, Vec<u32>)>,
}

pub struct TextTokenizer {
    inner: Tokenizer,
    /// A copy that spells out special tokens; made on first use, since it doubles the memory.
    plain: OnceLock<Tokenizer>,
    kind: DecoderKind,
    vocab_size: u32,
}

impl TextTokenizer {
    pub fn new(mut inner: Tokenizer) -> Self {
        // Truncation and padding are a collator's business; a file may carry its author's settings.
        let _ = inner.with_truncation(None);
        inner.with_padding(None);
        let largest = inner.get_vocab(true).into_values().max();
        let kind = decoder_kind(inner.get_decoder());
        TextTokenizer { inner, plain: OnceLock::new(), kind, vocab_size: largest.map_or(0, |id| id + 1) }
    }

    pub fn from_json(json: &[u8]) -> Result<Self, Failure> {
        let inner = Tokenizer::from_bytes(json).map_err(|e| Failure::new(format!("tokenizer.json: {e}")))?;
        Ok(Self::new(inner))
    }

    fn pick(&self, flags: u32) -> &Tokenizer {
        if flags & PLAIN_TEXT == 0 {
            return &self.inner;
        }
        self.plain.get_or_init(|| {
            let mut copy = self.inner.clone();
            copy.set_encode_special_tokens(true);
            copy
        })
    }

    pub fn encode(&self, text: &str, flags: u32) -> Result<Encoded, Failure> {
        let add_special = flags & ADD_SPECIAL != 0;
        let with_ranges = flags & WITH_RANGES != 0;
        let tokenizer = self.pick(flags);
        let encoding = if with_ranges {
            tokenizer.encode(text, add_special)?
        } else {
            tokenizer.encode_fast(text, add_special)?
        };
        Ok(unpack(&encoding, with_ranges))
    }

    pub fn encode_batch(&self, texts: Vec<&str>, flags: u32) -> Result<Vec<Encoded>, Failure> {
        let add_special = flags & ADD_SPECIAL != 0;
        let with_ranges = flags & WITH_RANGES != 0;
        let tokenizer = self.pick(flags);
        let encodings = if with_ranges {
            tokenizer.encode_batch(texts, add_special)?
        } else {
            tokenizer.encode_batch_fast(texts, add_special)?
        };
        Ok(encodings.iter().map(|e| unpack(e, with_ranges)).collect())
    }

    /// Text of the ids; an id without a token (padding rows of an embedding) contributes nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, Failure> {
        Ok(self.inner.decode(ids, skip_special)?)
    }

    /// The token's own spelling, as the vocabulary stores it.
    pub fn token(&self, id: u32) -> Result<String, Failure> {
        self.inner.id_to_token(id).ok_or_else(|| {
            Failure::new(format!("no token has id {id}; the vocabulary ends at {}", self.vocab_size))
        })
    }

    /// The bytes that the token contributes to the text; meaningful for `DecoderKind::Bytes`. Empty for an id
    /// without a token, as in `decode`.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        let added = self.inner.get_added_vocabulary().simple_id_to_token(id);
        let Some(token) = added.or_else(|| self.inner.id_to_token(id)) else {
            return Vec::new();
        };
        let bytes: Option<Vec<u8>> = token.chars().map(byte_of_char).collect();
        bytes.unwrap_or_else(|| token.into_bytes())
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    pub fn is_special(&self, id: u32) -> bool {
        let vocabulary = self.inner.get_added_vocabulary();
        self.inner.id_to_token(id).is_some_and(|t| vocabulary.is_special_token(&t))
    }

    pub fn decoder_kind(&self) -> DecoderKind {
        self.kind
    }

    pub fn to_json(&self) -> Result<String, Failure> {
        Ok(self.inner.to_string(true)?)
    }
}

fn unpack(encoding: &Encoding, with_ranges: bool) -> Encoded {
    let ranges = with_ranges.then(|| {
        encoding.get_offsets().iter().map(|&(b, e)| (b as u32, e as u32)).unzip::<u32, u32, Vec<_>, Vec<_>>()
    });
    Encoded { ids: encoding.get_ids().to_vec(), ranges }
}

fn decoder_kind(decoder: Option<&DecoderWrapper>) -> DecoderKind {
    match decoder {
        Some(DecoderWrapper::ByteLevel(_)) => DecoderKind::Bytes,
        Some(DecoderWrapper::Metaspace(_)) => DecoderKind::Pieces,
        Some(DecoderWrapper::Sequence(s)) => {
            let parts = s.get_decoders();
            let has_fallback = parts.iter().any(|d| matches!(d, DecoderWrapper::ByteFallback(_)));
            let known = parts.iter().all(|d| {
                matches!(
                    d,
                    DecoderWrapper::Replace(_)
                        | DecoderWrapper::ByteFallback(_)
                        | DecoderWrapper::Fuse(_)
                        | DecoderWrapper::Strip(_)
                )
            });
            match (parts, has_fallback && known) {
                ([DecoderWrapper::ByteLevel(_)], _) => DecoderKind::Bytes,
                (_, true) => DecoderKind::Pieces,
                _ => DecoderKind::Whole,
            }
        }
        _ => DecoderKind::Whole,
    }
}

/// Undoes GPT-2's spelling of bytes as printable characters: printable Latin-1 stands for itself, the other 68 bytes
/// are U+0100 onwards in increasing order.
fn byte_of_char(c: char) -> Option<u8> {
    let code = c as u32;
    let is_printable = |b: u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    if code < 256 {
        return is_printable(code).then_some(code as u8);
    }
    let index = (code - 256) as usize;
    (0u32..256).filter(|&b| !is_printable(b)).nth(index).map(|b| b as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_a_bijection() {
        let mut seen = [false; 256];
        let mut count = 0;
        for code in 0..1000u32 {
            if let Some(b) = char::from_u32(code).and_then(byte_of_char) {
                assert!(!seen[b as usize]);
                seen[b as usize] = true;
                count += 1;
            }
        }
        assert_eq!(count, 256);
        assert_eq!(byte_of_char('\u{120}'), Some(b' '));
        assert_eq!(byte_of_char('\u{10A}'), Some(b'\n'));
    }

    #[test]
    fn a_broken_file_is_refused_with_its_name() {
        let failure = TextTokenizer::from_json(b"{").err().unwrap();
        assert!(failure.0.starts_with("tokenizer.json: "), "{failure}");
    }
}

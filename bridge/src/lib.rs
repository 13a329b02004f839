//! A C ABI over Hugging Face's tokenizers and over minijinja, for `mainspring/text/`; with the feature `data`, also over
//! Parquet and object stores, for `mainspring/data/`.
//!
//! The one idea: nothing Rust-shaped crosses the border. A call takes byte slices and opaque handles, returns 0 or
//! -1 (or a null handle), and leaves the reason in a thread-local text. Panics are caught here. The C side of this
//! file is `mainspring/io/bridge.h`; the two change together.

#[cfg(feature = "data")]
pub mod data;
mod error;
mod gguf;
mod pyjson;
mod template;
mod tokenizer;

pub use gguf::tokenizer_from_gguf_parts;
pub use template::{ChatTemplate, Rendered};
pub use tokenizer::{Encoded, TextTokenizer};

use error::{guard, guard_ptr, Failure};
use std::os::raw::{c_char, c_int};
use std::slice;

/// Of this crate alone. Tokenizing is a small allocation a word, made and freed by as many threads as there are; C++ keeps
/// its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Borrowed bytes from C; `data` may be null when `size` is 0.
#[repr(C)]
pub struct MsSlice {
    data: *const u8,
    size: usize,
}

/// Text owned by this library until `ms_text_free`.
#[repr(C)]
pub struct MsText {
    data: *mut u8,
    size: usize,
}

/// Token ids with the byte range of the input that each came from; the ranges are null when not asked for.
#[repr(C)]
pub struct MsEncoding {
    ids: *mut u32,
    begins: *mut u32,
    ends: *mut u32,
    size: usize,
}

/// A rendered chat: text, and byte ranges [begin, end) of generation blocks in order, flattened to pairs.
#[repr(C)]
pub struct MsRendered {
    text: MsText,
    spans: *mut u32,
    num_spans: usize,
}

unsafe fn bytes_of<'a>(s: &MsSlice) -> &'a [u8] {
    if s.size == 0 {
        &[]
    } else {
        slice::from_raw_parts(s.data, s.size)
    }
}

unsafe fn text_of<'a>(s: &MsSlice) -> Result<&'a str, Failure> {
    std::str::from_utf8(bytes_of(s)).map_err(|e| Failure::new(format!("text is not UTF-8: {e}")))
}

unsafe fn ids_of<'a>(data: *const u32, size: usize) -> &'a [u32] {
    if size == 0 {
        &[]
    } else {
        slice::from_raw_parts(data, size)
    }
}

fn leak<T>(values: Vec<T>) -> *mut T {
    Box::into_raw(values.into_boxed_slice()) as *mut T
}

unsafe fn reclaim<T>(data: *mut T, size: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)));
    }
}

fn leak_bytes(bytes: Vec<u8>) -> MsText {
    let size = bytes.len();
    MsText { data: leak(bytes), size }
}

fn leak_text(text: String) -> MsText {
    leak_bytes(text.into_bytes())
}

fn leak_encoding(e: Encoded) -> MsEncoding {
    let size = e.ids.len();
    let ids = leak(e.ids);
    match e.ranges {
        None => MsEncoding { ids, begins: std::ptr::null_mut(), ends: std::ptr::null_mut(), size },
        Some((begins, ends)) => MsEncoding { ids, begins: leak(begins), ends: leak(ends), size },
    }
}

/// Why the last failing call on this thread failed; valid until the next failing call on it.
#[no_mangle]
pub extern "C" fn ms_bridge_last_error() -> *const c_char {
    error::last_error()
}

/// # Safety
/// `text` must be null or filled by this library and not yet freed.
#[no_mangle]
pub unsafe extern "C" fn ms_text_free(text: *mut MsText) {
    if let Some(t) = text.as_mut() {
        reclaim(t.data, t.size);
        t.data = std::ptr::null_mut();
        t.size = 0;
    }
}

/// # Safety
/// `encoding` must be null or filled by this library and not yet freed.
#[no_mangle]
pub unsafe extern "C" fn ms_encoding_free(encoding: *mut MsEncoding) {
    if let Some(e) = encoding.as_mut() {
        reclaim(e.ids, e.size);
        reclaim(e.begins, e.size);
        reclaim(e.ends, e.size);
        *e = MsEncoding {
            ids: std::ptr::null_mut(),
            begins: std::ptr::null_mut(),
            ends: std::ptr::null_mut(),
            size: 0,
        };
    }
}

/// # Safety
/// `rendered` must be null or filled by this library and not yet freed.
#[no_mangle]
pub unsafe extern "C" fn ms_rendered_free(rendered: *mut MsRendered) {
    if let Some(r) = rendered.as_mut() {
        ms_text_free(&mut r.text);
        reclaim(r.spans, 2 * r.num_spans);
        r.spans = std::ptr::null_mut();
        r.num_spans = 0;
    }
}

/// # Safety
/// `json` must describe readable bytes.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_from_json(json: MsSlice) -> *mut TextTokenizer {
    guard_ptr(|| TextTokenizer::from_json(bytes_of(&json)))
}

/// # Safety
/// `parts` must describe readable bytes.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_from_gguf(parts: MsSlice) -> *mut TextTokenizer {
    guard_ptr(|| Ok(TextTokenizer::new(tokenizer_from_gguf_parts(bytes_of(&parts))?)))
}

/// # Safety
/// `tokenizer` must be null or a live handle; it is dead afterwards.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// `tokenizer` must be a live handle, `text` readable, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_encode(
    tokenizer: *const TextTokenizer,
    text: MsSlice,
    flags: u32,
    out: *mut MsEncoding,
) -> c_int {
    guard(|| {
        let encoded = (*tokenizer).encode(text_of(&text)?, flags)?;
        out.write(leak_encoding(encoded));
        Ok(())
    })
}

/// # Safety
/// `tokenizer` must be a live handle, `texts` point to `num_texts` readable slices, `outs` to as many writable ones.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_encode_batch(
    tokenizer: *const TextTokenizer,
    texts: *const MsSlice,
    num_texts: usize,
    flags: u32,
    outs: *mut MsEncoding,
) -> c_int {
    guard(|| {
        let slices = if num_texts == 0 { &[] } else { slice::from_raw_parts(texts, num_texts) };
        let texts = slices.iter().map(|s| text_of(s)).collect::<Result<Vec<&str>, Failure>>()?;
        for (i, encoded) in (*tokenizer).encode_batch(texts, flags)?.into_iter().enumerate() {
            outs.add(i).write(leak_encoding(encoded));
        }
        Ok(())
    })
}

/// # Safety
/// `tokenizer` must be a live handle, `ids` readable, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_decode(
    tokenizer: *const TextTokenizer,
    ids: *const u32,
    num_ids: usize,
    skip_special: c_int,
    out: *mut MsText,
) -> c_int {
    guard(|| {
        let text = (*tokenizer).decode(ids_of(ids, num_ids), skip_special != 0)?;
        out.write(leak_text(text));
        Ok(())
    })
}

/// # Safety
/// `tokenizer` must be a live handle, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_token(
    tokenizer: *const TextTokenizer,
    id: u32,
    out: *mut MsText,
) -> c_int {
    guard(|| {
        out.write(leak_text((*tokenizer).token(id)?));
        Ok(())
    })
}

/// # Safety
/// `tokenizer` must be a live handle, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_token_bytes(
    tokenizer: *const TextTokenizer,
    id: u32,
    out: *mut MsText,
) -> c_int {
    guard(|| {
        out.write(leak_bytes((*tokenizer).token_bytes(id)));
        Ok(())
    })
}

/// The id of a token's exact text, or -1.
///
/// # Safety
/// `tokenizer` must be a live handle, `token` readable.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_id(tokenizer: *const TextTokenizer, token: MsSlice) -> i64 {
    match text_of(&token) {
        Ok(t) => (*tokenizer).id(t).map_or(-1, i64::from),
        Err(_) => -1,
    }
}

/// One more than the largest id, added tokens included.
///
/// # Safety
/// `tokenizer` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_vocab_size(tokenizer: *const TextTokenizer) -> u32 {
    (*tokenizer).vocab_size()
}

/// # Safety
/// `tokenizer` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_is_special(tokenizer: *const TextTokenizer, id: u32) -> c_int {
    c_int::from((*tokenizer).is_special(id))
}

/// How ids turn into text: 0 = each token is bytes on its own, 1 = sentencepiece pieces with byte fallback,
/// 2 = only a whole sequence decodes.
///
/// # Safety
/// `tokenizer` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_decoder_kind(tokenizer: *const TextTokenizer) -> c_int {
    (*tokenizer).decoder_kind() as c_int
}

/// # Safety
/// `tokenizer` must be a live handle, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_tokenizer_to_json(tokenizer: *const TextTokenizer, out: *mut MsText) -> c_int {
    guard(|| {
        out.write(leak_text((*tokenizer).to_json()?));
        Ok(())
    })
}

/// # Safety
/// `source` must be readable.
#[no_mangle]
pub unsafe extern "C" fn ms_template_compile(source: MsSlice) -> *mut ChatTemplate {
    guard_ptr(|| ChatTemplate::compile(text_of(&source)?))
}

/// # Safety
/// `template` must be null or a live handle; it is dead afterwards.
#[no_mangle]
pub unsafe extern "C" fn ms_template_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// Whether the template marks the assistant's text with generation blocks.
///
/// # Safety
/// `template` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn ms_template_has_generation(template: *const ChatTemplate) -> c_int {
    c_int::from((*template).has_generation())
}

/// # Safety
/// `template` must be a live handle, `context` readable, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_template_render(
    template: *const ChatTemplate,
    context: MsSlice,
    now_unix_s: i64,
    out: *mut MsRendered,
) -> c_int {
    guard(|| {
        let rendered = (*template).render(text_of(&context)?, now_unix_s)?;
        let spans: Vec<u32> = rendered.spans.iter().flat_map(|&(b, e)| [b, e]).collect();
        let num_spans = rendered.spans.len();
        out.write(MsRendered { text: leak_text(rendered.text), spans: leak(spans), num_spans });
        Ok(())
    })
}

//! Failures as text, and the guard that keeps panics from crossing the border.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::CString;
use std::os::raw::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A failure's whole story in words; the C++ side adds its own context and code.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Failure(message.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<tokenizers::Error> for Failure {
    fn from(e: tokenizers::Error) -> Self {
        Failure(e.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(e: serde_json::Error) -> Self {
        Failure(e.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

pub fn last_error() -> *const c_char {
    LAST.with(|l| l.borrow().as_ptr())
}

fn remember(message: String) {
    let clean = message.replace('\0', "\\0");
    LAST.with(|l| *l.borrow_mut() = CString::new(clean).unwrap_or_default());
}

fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let words = payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string());
    format!("panic in the bridge: {words}")
}

fn caught<T>(f: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(failure)) => {
            remember(failure.0);
            None
        }
        Err(payload) => {
            remember(panic_text(payload));
            None
        }
    }
}

/// Runs `f`; 0 when it succeeds, -1 with the reason kept when it fails or panics.
pub fn guard(f: impl FnOnce() -> Result<(), Failure>) -> c_int {
    caught(f).map_or(-1, |()| 0)
}

/// Runs `f` and gives its value to the caller as a handle; null with the reason kept when it fails or panics.
pub fn guard_ptr<T>(f: impl FnOnce() -> Result<T, Failure>) -> *mut T {
    caught(f).map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_becomes_an_error_text() {
        assert_eq!(guard(|| panic!("boom {}", 7)), -1);
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert_eq!(text, "panic in the bridge: boom 7");
    }

    #[test]
    fn a_nul_in_a_message_survives_as_an_escape() {
        assert_eq!(guard(|| Err(Failure::new("a\0b"))), -1);
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert_eq!(text, "a\\0b");
    }
}

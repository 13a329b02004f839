//! The data feature: Parquet files as rows of JSON, and objects of remote stores as bytes.
//!
//! The one idea: both are streams that C pulls from, one buffer at a time; what is kept on disk, and for how long, is
//! the caller's business (`mainspring/data/`). The C side of this folder is `mainspring/io/data_bridge.h`.

mod object;
mod parquet_rows;

use crate::error::{guard, guard_ptr, Failure};
use crate::{leak_text, text_of, MsSlice, MsText};
use object::{FetchLimits, ObjectError, ObjectStream};
use parquet_rows::{ParquetFile, ParquetRows};
use std::os::raw::c_int;
use std::slice;

/// What a stored object is, as its store said when the stream was opened.
#[repr(C)]
pub struct MsObjectInfo {
    size: u64,
    begin: u64,
    modified_ns: i64,
    etag: MsText,
}

/// # Safety
/// `path` must describe readable bytes.
#[no_mangle]
pub unsafe extern "C" fn ms_parquet_open(path: MsSlice) -> *mut ParquetFile {
    guard_ptr(|| ParquetFile::open(text_of(&path)?))
}

/// # Safety
/// `file` must be null or a live handle; it is dead afterwards.
#[no_mangle]
pub unsafe extern "C" fn ms_parquet_free(file: *mut ParquetFile) {
    if !file.is_null() {
        drop(Box::from_raw(file));
    }
}

/// # Safety
/// `file` must be a live handle, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_parquet_describe(file: *const ParquetFile, out: *mut MsText) -> c_int {
    guard(|| {
        out.write(leak_text((*file).describe()));
        Ok(())
    })
}

/// # Safety
/// `file` must be a live handle, `columns` point to `num_columns` readable slices.
#[no_mangle]
pub unsafe extern "C" fn ms_parquet_rows(
    file: *const ParquetFile,
    first_group: usize,
    end_group: usize,
    columns: *const MsSlice,
    num_columns: usize,
) -> *mut ParquetRows {
    guard_ptr(|| {
        let slices = if num_columns == 0 { &[] } else { slice::from_raw_parts(columns, num_columns) };
        let names = slices.iter().map(|s| text_of(s)).collect::<Result<Vec<&str>, Failure>>()?;
        (*file).rows(first_group..end_group, &names)
    })
}

/// # Safety
/// `rows` must be null or a live handle; it is dead afterwards.
#[no_mangle]
pub unsafe extern "C" fn ms_parquet_rows_free(rows: *mut ParquetRows) {
    if !rows.is_null() {
        drop(Box::from_raw(rows));
    }
}

/// # Safety
/// `rows` must be a live handle that no other call uses, `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_parquet_next(
    rows: *mut ParquetRows,
    min_bytes: usize,
    out: *mut MsText,
) -> c_int {
    guard(|| {
        out.write(leak_text((*rows).next(min_bytes)?));
        Ok(())
    })
}

// The kind of an object's failure goes to `kind` and its words to the thread's last error.
unsafe fn kept<T>(result: Result<T, ObjectError>, kind: *mut c_int) -> Result<T, Failure> {
    result.map_err(|e| {
        kind.write(e.kind as c_int);
        Failure::new(e.message)
    })
}

/// # Safety
/// `url` and `same_as` must be readable, `limits`, `info` and `kind` valid.
#[no_mangle]
pub unsafe extern "C" fn ms_object_open(
    url: MsSlice,
    begin: u64,
    same_as: MsSlice,
    limits: *const FetchLimits,
    info: *mut MsObjectInfo,
    kind: *mut c_int,
) -> *mut ObjectStream {
    kind.write(0);
    guard_ptr(|| {
        let stream = kept(ObjectStream::open(text_of(&url)?, begin, text_of(&same_as)?, *limits), kind)?;
        let meta = stream.meta();
        info.write(MsObjectInfo {
            size: meta.size,
            begin: meta.begin,
            modified_ns: meta.modified_ns,
            etag: leak_text(meta.etag.clone()),
        });
        Ok(stream)
    })
}

/// # Safety
/// `stream` must be a live handle that no other call uses, `out` and `kind` writable.
#[no_mangle]
pub unsafe extern "C" fn ms_object_read(
    stream: *mut ObjectStream,
    out: *mut MsText,
    kind: *mut c_int,
) -> c_int {
    kind.write(0);
    guard(|| {
        let bytes = kept((*stream).next(), kind)?;
        out.write(crate::leak_bytes(bytes));
        Ok(())
    })
}

/// # Safety
/// `stream` must be null or a live handle; it is dead afterwards.
#[no_mangle]
pub unsafe extern "C" fn ms_object_free(stream: *mut ObjectStream) {
    if !stream.is_null() {
        drop(Box::from_raw(stream));
    }
}

//! Rows of a Parquet file as lines of JSON.
//!
//! The one idea: a row becomes the line that JSONL would hold, so whatever reads rows of JSON reads Parquet. A column
//! chunk is decoded page by page as its rows are asked for; only the columns asked for are read. A null field is left
//! out: columns are there for every row, and a row that does not use one would have no such field in JSONL.

use crate::error::Failure;
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::{ReaderIter, TreeBuilder};
use parquet::record::{Field, List, Map, Row};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};
use serde_json::json;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

pub struct ParquetFile {
    reader: Arc<SerializedFileReader<File>>,
}

/// Row groups of a file, read one after another.
pub struct ParquetRows {
    reader: Arc<SerializedFileReader<File>>,
    schema: SchemaDescPtr,
    groups: Range<usize>,
    current: Option<ReaderIter>,
    row: i64, // of the file, from 1: the one read last
}

impl From<parquet::errors::ParquetError> for Failure {
    fn from(e: parquet::errors::ParquetError) -> Self {
        Failure(e.to_string())
    }
}

fn type_text(field: &Type) -> String {
    if field.is_group() {
        return "nested".to_string();
    }
    let info = field.get_basic_info();
    match info.logical_type_ref() {
        Some(logical) => format!("{logical:?}"),
        None => format!("{}", field.get_physical_type()),
    }
}

impl ParquetFile {
    pub fn open(path: &str) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|e| Failure::new(e.to_string()))?;
        Ok(ParquetFile { reader: Arc::new(SerializedFileReader::new(file)?) })
    }

    /// {"columns": [{"name", "type"}], "groups": [{"rows", "begin"}], "codecs": ["ZSTD"]}; `begin` is the place in the
    /// file of a group's first page.
    pub fn describe(&self) -> String {
        let metadata = self.reader.metadata();
        let root = metadata.file_metadata().schema();
        let columns: Vec<_> =
            root.get_fields().iter().map(|f| json!({"name": f.name(), "type": type_text(f)})).collect();
        let mut codecs: Vec<String> = Vec::new();
        let mut groups = Vec::new();
        for group in metadata.row_groups() {
            let begin = group.columns().iter().map(|c| c.byte_range().0).min().unwrap_or(0);
            groups.push(json!({"rows": group.num_rows(), "begin": begin}));
            for column in group.columns() {
                let codec = match column.compression() {
                    Compression::UNCOMPRESSED => continue,
                    other => other.to_string(),
                };
                if !codecs.contains(&codec) {
                    codecs.push(codec);
                }
            }
        }
        json!({"columns": columns, "groups": groups, "codecs": codecs}).to_string()
    }

    /// `columns` names fields of the root, in any order; none: all. Each must be there.
    pub fn rows(&self, groups: Range<usize>, columns: &[&str]) -> Result<ParquetRows, Failure> {
        let metadata = self.reader.metadata();
        if groups.start > groups.end || groups.end > metadata.num_row_groups() {
            return Err(Failure::new(format!("row groups {groups:?} of {}", metadata.num_row_groups())));
        }
        let root = metadata.file_metadata().schema();
        for name in columns {
            if !root.get_fields().iter().any(|f| f.name() == *name) {
                return Err(Failure::new(format!("no column {name}")));
            }
        }
        let wanted = root.get_fields().iter().filter(|f| columns.is_empty() || columns.contains(&f.name()));
        let projected =
            Type::group_type_builder(root.name()).with_fields(wanted.cloned().collect()).build()?;
        let row = metadata.row_groups()[..groups.start].iter().map(|g| g.num_rows()).sum();
        Ok(ParquetRows {
            reader: self.reader.clone(),
            schema: Arc::new(SchemaDescriptor::new(Arc::new(projected))),
            groups,
            current: None,
            row,
        })
    }
}

impl ParquetRows {
    /// Whole rows, a line each, of at least `min_bytes` together unless the rows end; empty after the last.
    pub fn next(&mut self, min_bytes: usize) -> Result<String, Failure> {
        let mut out = Vec::with_capacity(min_bytes + min_bytes / 8);
        while out.len() < min_bytes.max(1) {
            let Some(row) = self.next_row()? else { break };
            self.row += 1;
            write_fields(&mut out, row.get_column_iter().map(|(name, field)| (name.as_str(), field)))
                .map_err(|e| Failure::new(format!("row {}: {}", self.row, e.0)))?;
            out.push(b'\n');
        }
        String::from_utf8(out).map_err(|e| Failure::new(e.to_string()))
    }

    fn next_row(&mut self) -> Result<Option<Row>, Failure> {
        loop {
            if let Some(rows) = self.current.as_mut() {
                if let Some(row) = rows.next() {
                    return Ok(Some(row.map_err(|e| Failure::new(format!("row {}: {e}", self.row + 1)))?));
                }
                self.current = None;
            }
            let Some(group) = self.groups.next() else { return Ok(None) };
            let reader = self.reader.get_row_group(group)?;
            self.current = Some(TreeBuilder::new().as_iter(self.schema.clone(), reader.as_ref())?);
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) -> Result<(), Failure> {
    Ok(serde_json::to_writer(out, text)?)
}

fn write_fields<'a>(
    out: &mut Vec<u8>,
    fields: impl Iterator<Item = (&'a str, &'a Field)>,
) -> Result<(), Failure> {
    out.push(b'{');
    let mut first = true;
    for (name, field) in fields {
        if matches!(field, Field::Null) {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        write_text(out, name)?;
        out.push(b':');
        write_field(out, field).map_err(|e| Failure::new(format!("{name}: {}", e.0)))?;
    }
    out.push(b'}');
    Ok(())
}

fn write_list(out: &mut Vec<u8>, list: &List) -> Result<(), Failure> {
    out.push(b'[');
    for (i, element) in list.elements().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_field(out, element)?;
    }
    out.push(b']');
    Ok(())
}

fn write_map(out: &mut Vec<u8>, map: &Map) -> Result<(), Failure> {
    out.push(b'{');
    for (i, (key, value)) in map.entries().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match key {
            Field::Str(text) => write_text(out, text)?,
            other => write_text(out, &other.to_string())?,
        }
        out.push(b':');
        write_field(out, value)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_float(out: &mut Vec<u8>, value: f64, text: String) -> Result<(), Failure> {
    if !value.is_finite() {
        return Err(Failure::new(format!("{value} has no form in JSON")));
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_field(out: &mut Vec<u8>, field: &Field) -> Result<(), Failure> {
    match field {
        Field::Null => out.extend_from_slice(b"null"),
        Field::Str(text) => write_text(out, text)?,
        Field::Group(row) => write_fields(out, row.get_column_iter().map(|(n, f)| (n.as_str(), f)))?,
        Field::ListInternal(list) => write_list(out, list)?,
        Field::MapInternal(map) => write_map(out, map)?,
        Field::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Field::Byte(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::Short(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::Long(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::UByte(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::UShort(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::UInt(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::ULong(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::Float16(value) => {
            write_float(out, f64::from(value.to_f32()), json!(value.to_f32()).to_string())?
        }
        Field::Float(value) => write_float(out, f64::from(*value), serde_json::to_string(value)?)?,
        Field::Double(value) => write_float(out, *value, serde_json::to_string(value)?)?,
        // Text whose writer did not say that it is text.
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => write_text(out, text)?,
            Err(_) => {
                return Err(Failure::new("is binary; only text, numbers, lists and structs can be read"))
            }
        },
        // Numbers of a fixed point, dates and times: as they are written for people.
        other => write_text(out, &other.to_string())?,
    }
    Ok(())
}

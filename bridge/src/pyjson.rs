//! `json.dumps` as Python writes it: chat templates print tools and arguments through it, so every blank counts.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

pub struct Style {
    pub ensure_ascii: bool,
    /// Text of one level of indentation; none keeps everything on one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl Style {
    /// Python's own choice of separators: no blank at the end of a line.
    pub fn with_indent(indent: Option<String>) -> Self {
        let item_separator = if indent.is_some() { "," } else { ", " };
        Style {
            ensure_ascii: false,
            indent,
            item_separator: item_separator.to_string(),
            key_separator: ": ".to_string(),
            sort_keys: false,
        }
    }
}

pub fn dumps(value: &Value, style: &Style) -> Result<String, Error> {
    let mut out = String::new();
    write_value(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_value(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)?),
        ValueKind::String => write_string(out, value.as_str().unwrap_or_default(), style.ensure_ascii),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_items(out, ['[', ']'], items.len(), style, depth, |out, i| {
                write_value(out, &items[i], style, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            write_items(out, ['{', '}'], keys.len(), style, depth, |out, i| {
                let key = &keys[i];
                match key.kind() {
                    ValueKind::String => write_value(out, key, style, depth)?,
                    ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                        out.push('"');
                        write_value(out, key, style, depth)?;
                        out.push('"');
                    }
                    other => return Err(refuse(&format!("a key of kind {other}"))),
                }
                out.push_str(&style.key_separator);
                write_value(out, &value.get_item(key)?, style, depth + 1)
            })?;
        }
        other => return Err(refuse(&format!("a value of kind {other}"))),
    }
    Ok(())
}

fn refuse(what: &str) -> Error {
    Error::new(ErrorKind::BadSerialization, format!("tojson: {what} is not JSON serializable"))
}

fn write_items(
    out: &mut String,
    brackets: [char; 2],
    count: usize,
    style: &Style,
    depth: usize,
    mut write: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |out: &mut String, depth: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    out.push(brackets[0]);
    for i in 0..count {
        if i > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(out, depth + 1);
        write(out, i)?;
    }
    if count > 0 {
        new_line(out, depth);
    }
    out.push(brackets[1]);
    Ok(())
}

fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    Ok(python_float(f64::try_from(value.clone())?))
}

/// Python's `repr` of a float: shortest digits that read back, exponent form outside 1e-4 <= |x| < 1e16.
pub fn python_float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_string();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = x.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

fn write_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if ensure_ascii && (c as u32) > 0x7e => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;

    fn value(json: &str) -> Value {
        Value::from(Serde(&serde_json::from_str::<serde_json::Value>(json).unwrap()))
    }

    #[test]
    fn one_line_has_blanks_after_commas_and_colons_and_keeps_the_order() {
        let v = value(r#"{"b":[1,2.0,true,null],"a":"<é>'\n"}"#);
        let text = dumps(&v, &Style::with_indent(None)).unwrap();
        assert_eq!(text, "{\"b\": [1, 2.0, true, null], \"a\": \"<é>'\\n\"}");
    }

    #[test]
    fn indented_items_leave_no_blank_at_a_line_end_and_empty_ones_stay_closed() {
        let v = value(r#"{"a":[],"b":{"c":1}}"#);
        let text = dumps(&v, &Style::with_indent(Some("  ".into()))).unwrap();
        assert_eq!(text, "{\n  \"a\": [],\n  \"b\": {\n    \"c\": 1\n  }\n}");
    }

    #[test]
    fn floats_read_as_python_prints_them() {
        let cases = [
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (0.1, "0.1"),
        ];
        for (x, text) in cases {
            assert_eq!(python_float(x), text);
        }
        assert_eq!(python_float(-0.0), "-0.0");
        assert_eq!(python_float(1.5e300), "1.5e+300");
    }

    #[test]
    fn ascii_on_demand_writes_surrogate_pairs() {
        let mut style = Style::with_indent(None);
        style.ensure_ascii = true;
        assert_eq!(dumps(&Value::from("é😀"), &style).unwrap(), "\"\\u00e9\\ud83d\\ude00\"");
    }
}

//! Chat templates, rendered as transformers renders them.
//!
//! minijinja is Jinja in another language; what differs from Python's is mended here: the string methods that
//! templates call, `tojson`, the attribute rules of dictionaries, and Hugging Face's own `{% generation %}` tag, which
//! marks the assistant's text. Its place is kept by two private-use
//! characters; rendering takes them out again and reports where they were.

use crate::error::Failure;
use crate::pyjson::{dumps, python_float, Style};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{from_args, Kwargs, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};
use minijinja_contrib::pycompat;

const NAME: &str = "chat template";
const OPEN_KEY: &str = "_ms_span_open";
const CLOSE_KEY: &str = "_ms_span_close";
const NOW_KEY: &str = "_ms_now_unix_s";

pub struct ChatTemplate {
    environment: Environment<'static>,
    has_generation: bool,
}

/// Text of a chat, and the byte ranges of its generation blocks in order.
#[derive(Debug, PartialEq)]
pub struct Rendered {
    pub text: String,
    pub spans: Vec<(u32, u32)>,
}

impl ChatTemplate {
    pub fn compile(source: &str) -> Result<Self, Failure> {
        let (source, has_generation) = replace_generation_tags(&with_unix_newlines(source));
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|e| Failure::new(e.to_string()))?;
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(python_method);
        environment.add_filter("tojson", tojson);
        environment.set_formatter(format_value);
        environment.add_filter("trim", trim);
        environment.add_filter("string", python_string);
        environment.add_filter("escape", escape);
        environment.add_filter("e", escape);
        environment.add_filter("int", to_int);
        environment.add_filter("float", to_float);
        environment.add_filter("wordcount", |text: String| text.split_whitespace().count());
        environment.add_filter("center", center);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_test("iterable", is_iterable);
        environment.add_template_owned(NAME, source).map_err(|e| Failure::new(describe(&e)))?;
        Ok(ChatTemplate { environment, has_generation })
    }

    pub fn has_generation(&self) -> bool {
        self.has_generation
    }

    /// Renders with the variables of a JSON object. Times in the template are those of `now_unix_s`.
    pub fn render(&self, context_json: &str, now_unix_s: i64) -> Result<Rendered, Failure> {
        let mut context: serde_json::Value = serde_json::from_str(context_json)?;
        let variables = context
            .as_object_mut()
            .ok_or_else(|| Failure::new("the variables of a chat template must be a JSON object"))?;
        let (open, close) = self.markers(context_json, variables);
        variables.insert(OPEN_KEY.to_string(), open.to_string().into());
        variables.insert(CLOSE_KEY.to_string(), close.to_string().into());
        variables.insert(NOW_KEY.to_string(), now_unix_s.into());
        let template = self.environment.get_template(NAME).map_err(|e| Failure::new(describe(&e)))?;
        let text = template.render(Value::from(Serde(&context))).map_err(|e| Failure::new(describe(&e)))?;
        if !self.has_generation {
            return Ok(Rendered { text, spans: Vec::new() });
        }
        Ok(take_markers(&text, open, close))
    }

    /// Two private-use characters that stand nowhere in the input, so that whatever carries them is ours.
    fn markers(&self, json: &str, variables: &serde_json::Map<String, serde_json::Value>) -> (char, char) {
        let choices = ('\u{100000}'..='\u{10FFFD}').step_by(2);
        // Escapes such as \udbc0 hide characters from a search of the raw text; writing the JSON again shows them.
        let shown = if json.contains("\\u") || json.contains("\\U") {
            serde_json::to_string(variables).unwrap_or_default()
        } else {
            String::new()
        };
        let source = self.environment.get_template(NAME).map(|t| t.source().to_string()).unwrap_or_default();
        for open in choices {
            let close = char::from_u32(open as u32 + 1).unwrap_or(open);
            let is_free = |c: char| !json.contains(c) && !shown.contains(c) && !source.contains(c);
            if is_free(open) && is_free(close) {
                return (open, close);
            }
        }
        ('\u{10FFFE}', '\u{10FFFF}')
    }
}

/// Jinja reads every kind of line end as `\n`.
fn with_unix_newlines(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

/// Puts the markers where `{% generation %}` and `{% endgeneration %}` stand, and says whether there were any. The
/// tags become a `with` block, which like the tag has a scope of its own; their trimming is kept by hand where the
/// print tag beside it has none.
fn replace_generation_tags(source: &str) -> (String, bool) {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut found = false;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        let Some(end) = tag.find("%}") else { break };
        out.push_str(before);
        rest = &tag[end + 2..];
        let body = &tag[2..end];
        let left = if body.starts_with(['-', '+']) { &body[..1] } else { "" };
        let inner = &body[left.len()..];
        let right = if inner.ends_with(['-', '+']) { &inner[inner.len() - 1..] } else { "" };
        match inner[..inner.len() - right.len()].trim() {
            "generation" => {
                found = true;
                let strip = if right == "-" { "-" } else { "" };
                out.push_str(&format!("{{%{left} with %}}{{{{ {OPEN_KEY} {strip}}}}}"));
                if right.is_empty() {
                    rest = rest.strip_prefix('\n').unwrap_or(rest);
                }
            }
            "endgeneration" => {
                if left.is_empty() {
                    let line = out.rfind('\n').map_or(0, |n| n + 1);
                    if out[line..].chars().all(|c| c == ' ' || c == '\t') {
                        out.truncate(line);
                    }
                }
                let strip = if left == "-" { "-" } else { "" };
                out.push_str(&format!("{{{{{strip} {CLOSE_KEY} }}}}{{% endwith {right}%}}"));
            }
            _ => out.push_str(&tag[..end + 2]),
        }
    }
    out.push_str(rest);
    (out, found)
}

fn take_markers(text: &str, open: char, close: char) -> Rendered {
    let mut out = String::with_capacity(text.len());
    let mut spans = Vec::new();
    let mut begin: Option<usize> = None;
    for c in text.chars() {
        if c == open {
            begin = begin.or(Some(out.len()));
        } else if c == close {
            if let Some(b) = begin.take() {
                spans.push((b as u32, out.len() as u32));
            }
        } else {
            out.push(c);
        }
    }
    Rendered { text: out, spans }
}

/// The message of an error with its line and what lies beneath it.
fn describe(e: &Error) -> String {
    let mut out = String::new();
    match (e.kind(), e.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => out.push_str(detail),
        (kind, Some(detail)) => out.push_str(&format!("{kind}: {detail}")),
        (kind, None) => out.push_str(&kind.to_string()),
    }
    if let Some(line) = e.line() {
        out.push_str(&format!(" (chat template, line {line})"));
    }
    let mut cause = std::error::Error::source(e);
    while let Some(c) = cause {
        out.push_str(&format!(": {c}"));
        cause = c.source();
    }
    out
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(
        ErrorKind::InvalidOperation,
        format!("the chat template refuses these messages: {message}"),
    ))
}

fn strftime_now(state: &State, format: String) -> Result<Value, Error> {
    let now = state.lookup(NOW_KEY).and_then(|v| v.as_i64()).unwrap_or(0);
    let bad = || Error::new(ErrorKind::InvalidOperation, format!("strftime_now: cannot format '{format}'"));
    let c_format = std::ffi::CString::new(format.as_str()).map_err(|_| bad())?;
    let mut buffer = vec![0u8; 256 + 16 * format.len()];
    // SAFETY: tm is filled by localtime_r before use; strftime writes at most buffer.len() bytes.
    let written = unsafe {
        let time = now as libc::time_t;
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&time, &mut tm).is_null() {
            return Err(bad());
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), c_format.as_ptr(), &tm)
    };
    if written == 0 && !format.is_empty() {
        return Err(bad());
    }
    buffer.truncate(written);
    String::from_utf8(buffer).map(Value::from).map_err(|_| bad())
}

/// Arguments that Python takes by place or by name; None and undefined count as not given.
fn options<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    let (positional, kwargs): (&[Value], Kwargs) = from_args(args)?;
    if positional.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut out = [const { None }; N];
    for (i, name) in names.iter().enumerate() {
        let given = match positional.get(i) {
            Some(v) => Some(v.clone()),
            None => kwargs.get::<Option<Value>>(name)?,
        };
        out[i] = given.filter(|v| !v.is_none() && !v.is_undefined());
    }
    kwargs.assert_all_used()?;
    Ok(out)
}

type Arguments = minijinja::value::Rest<minijinja::value::ValueOrKwargs>;

/// transformers' `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn tojson(value: &Value, args: Arguments) -> Result<Value, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] = options(&args.into_values(), names)?;
    let indent = match indent {
        Some(v) if v.kind() == ValueKind::String => Some(v.to_string()),
        Some(v) if v.kind() == ValueKind::Bool => Some(" ".repeat(usize::from(v.is_true()))),
        Some(v) => Some(" ".repeat(usize::try_from(v).unwrap_or(0))),
        None => None,
    };
    let mut style = Style::with_indent(indent);
    style.ensure_ascii = ensure_ascii.is_some_and(|v| v.is_true());
    if let Some(separators) = separators {
        style.item_separator = separators.get_item_by_index(0)?.to_string();
        style.key_separator = separators.get_item_by_index(1)?.to_string();
    }
    style.sort_keys = sort_keys.is_some_and(|v| v.is_true());
    Ok(Value::from(dumps(value, &style)?))
}

/// What Python's `str.strip` removes: Unicode blanks and the four separators of ASCII.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let gone = |c: char| chars.map_or_else(|| is_python_space(c), |set| set.contains(c));
    let text = if left { text.trim_start_matches(gone) } else { text };
    if right {
        text.trim_end_matches(gone)
    } else {
        text
    }
}

fn trim(value: &Value, args: Arguments) -> Result<Value, Error> {
    let [chars] = options(&args.into_values(), ["chars"])?;
    let chars = chars.map(|c| c.to_string());
    Ok(Value::from(strip(&value.to_string(), chars.as_deref(), true, true)))
}

/// `{{ value }}`: minijinja prints what Python prints, floats of great or small size aside.
fn format_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if is_float(value) {
        return out.write_str(&python_str(value)?).map_err(Error::from);
    }
    minijinja::escape_formatter(out, state, value)
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

fn python_str(value: &Value) -> Result<String, Error> {
    if !is_float(value) {
        return Ok(value.to_string());
    }
    let x = f64::try_from(value.clone())?;
    Ok(if x.is_nan() {
        "nan".to_string()
    } else if x.is_infinite() {
        if x > 0.0 { "inf" } else { "-inf" }.to_string()
    } else {
        python_float(x)
    })
}

fn python_string(value: &Value) -> Result<Value, Error> {
    Ok(Value::from(python_str(value)?))
}

/// Jinja's test: None is not iterable.
fn is_iterable(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Undefined
    )
}

/// Jinja's `escape`, with markupsafe's own names of the quotes.
fn escape(value: &Value) -> Value {
    if value.is_safe() {
        return value.clone();
    }
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Value::from_safe_string(out)
}

/// Jinja's `int`: what cannot be read as a number becomes the default.
fn to_int(value: &Value, args: Arguments) -> Result<Value, Error> {
    let [default, base] = options(&args.into_values(), ["default", "base"])?;
    let default = default.unwrap_or_else(|| Value::from(0));
    let truncated = |x: f64| if x.is_finite() { Value::from(x.trunc() as i64) } else { default.clone() };
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => truncated(f64::try_from(value.clone())?),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim().replace('_', "");
            let base = base.map_or(Ok(10), u32::try_from)?;
            let digits = match base {
                2 => text.trim_start_matches("0b"),
                8 => text.trim_start_matches("0o"),
                16 => text.trim_start_matches("0x"),
                _ => &text,
            };
            match i64::from_str_radix(digits, base.clamp(2, 36)) {
                Ok(number) => Value::from(number),
                Err(_) => text.parse::<f64>().map_or_else(|_| default.clone(), truncated),
            }
        }
        _ => default,
    })
}

/// Jinja's `float`, likewise.
fn to_float(value: &Value, args: Arguments) -> Result<Value, Error> {
    let [default] = options(&args.into_values(), ["default"])?;
    let default = default.unwrap_or_else(|| Value::from(0.0));
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => Value::from(f64::try_from(value.clone())?),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim().replace('_', "");
            text.parse::<f64>().map_or(default, Value::from)
        }
        _ => default,
    })
}

fn center(text: String, args: Arguments) -> Result<String, Error> {
    let [width] = options(&args.into_values(), ["width"])?;
    Ok(centered(&text, width.map_or(Ok(80), usize::try_from)?, " "))
}

/// Python's `str.center`, which puts the odd blank on the left when the width is odd.
fn centered(text: &str, width: usize, fill: &str) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let left = missing / 2 + (missing & width & 1);
    format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))
}

/// `str.split`: at a separator, or at runs of blanks when there is none; at most `limit` cuts.
fn split_text<'a>(text: &'a str, separator: Option<&str>, limit: Option<usize>) -> Vec<&'a str> {
    if let Some(separator) = separator {
        return match limit {
            Some(n) => text.splitn(n + 1, separator).collect(),
            None => text.split(separator).collect(),
        };
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_python_space);
    while !rest.is_empty() {
        if limit.is_some_and(|n| parts.len() == n) {
            parts.push(rest.trim_end_matches(is_python_space));
            break;
        }
        let end = rest.find(is_python_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_python_space);
    }
    parts
}

fn split_lines(text: &str, keep_ends: bool) -> Vec<Value> {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_end).unwrap_or(rest.len());
        let width = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(0, char::len_utf8)
        };
        lines.push(Value::from(&rest[..if keep_ends { end + width } else { end }]));
        rest = &rest[end + width..];
    }
    lines
}

/// Methods of Python's str, dict and list: those that pycompat lacks or does otherwise first, then pycompat's.
fn python_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if let Some(result) = string_method(text, method, args) {
            return result;
        }
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let one = || from_args::<(&str,)>(args).map(|(a,)| a);
    let stripped = |left, right| {
        from_args::<(Option<&str>,)>(args).map(|(chars,)| Value::from(strip(text, chars, left, right)))
    };
    let triple = |a: &str, b: &str, c: &str| [a, b, c].into_iter().map(Value::from).collect::<Value>();
    Some(match method {
        "strip" => stripped(true, true),
        "lstrip" => stripped(true, false),
        "rstrip" => stripped(false, true),
        "split" | "rsplit" => options(args, ["sep", "maxsplit"]).and_then(|[separator, limit]| {
            let separator = separator.map(|s| s.to_string());
            let limit = limit.map(i64::try_from).transpose()?.and_then(|n| usize::try_from(n).ok());
            let parts = match (&separator, limit) {
                (Some(s), Some(n)) if method == "rsplit" => {
                    let mut parts: Vec<&str> = text.rsplitn(n + 1, s.as_str()).collect();
                    parts.reverse();
                    parts
                }
                _ => split_text(text, separator.as_deref(), limit),
            };
            Ok(parts.into_iter().map(Value::from).collect())
        }),
        "splitlines" => options(args, ["keepends"])
            .map(|[keep]| Value::from(split_lines(text, keep.is_some_and(|k| k.is_true())))),
        "removeprefix" => one().map(|p| Value::from(text.strip_prefix(p).unwrap_or(text))),
        "removesuffix" => one().map(|s| Value::from(text.strip_suffix(s).unwrap_or(text))),
        "partition" => one().map(|s| match text.split_once(s) {
            Some((a, b)) => triple(a, s, b),
            None => triple(text, "", ""),
        }),
        "rpartition" => one().map(|s| match text.rsplit_once(s) {
            Some((a, b)) => triple(a, s, b),
            None => triple("", "", text),
        }),
        "index" => one().and_then(|s| match text.find(s) {
            Some(at) => Ok(Value::from(text[..at].chars().count())),
            None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
        }),
        "ljust" | "rjust" | "center" => from_args::<(usize, Option<&str>)>(args).map(|(width, fill)| {
            let fill = fill.unwrap_or(" ");
            let missing = fill.repeat(width.saturating_sub(text.chars().count()));
            Value::from(match method {
                "ljust" => format!("{text}{missing}"),
                "rjust" => format!("{missing}{text}"),
                _ => centered(text, width, fill),
            })
        }),
        "zfill" => from_args::<(usize,)>(args).map(|(width,)| {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
            let missing = width.saturating_sub(text.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(missing)))
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, context: &str) -> String {
        ChatTemplate::compile(source).unwrap().render(context, 0).unwrap().text
    }

    #[test]
    fn blocks_trim_as_in_transformers() {
        let source =
            "{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}\nend\n";
        assert_eq!(render(source, r#"{"messages":[{"content":"a"},{"content":"b"}]}"#), "a\nb\nend");
    }

    #[test]
    fn python_prints_none_true_lists_and_dicts() {
        let context = r#"{"a":null,"b":true,"c":[1,"x",null],"d":{"k":"v"},"e":1.0}"#;
        assert_eq!(
            render("{{ a }} {{ b }} {{ c }} {{ d }} {{ e }} {{ 'n: ' ~ a }} {{ c|string }}", context),
            "None True [1, 'x', None] {'k': 'v'} 1.0 n: None [1, 'x', None]"
        );
    }

    #[test]
    fn a_key_called_items_does_not_hide_the_method() {
        let context = r#"{"schema":{"type":"array","items":{"type":"string"}}}"#;
        assert_eq!(render("{% for k, v in schema.items() %}{{ k }};{% endfor %}", context), "type;items;");
    }

    #[test]
    fn generation_blocks_are_reported_and_leave_no_trace() {
        let source = "{% for m in messages %}<{{ m.role }}>\n{% if m.role == 'assistant' %}\
            {%- generation %}{{ m.content }}</s>{% endgeneration %}\n{% else %}{{ m.content }}\n{% endif %}{% endfor %}";
        let template = ChatTemplate::compile(source).unwrap();
        assert!(template.has_generation());
        let context = r#"{"messages":[{"role":"user","content":"\udbc0\udc00é"},{"role":"assistant","content":"yes"}]}"#;
        let rendered = template.render(context, 0).unwrap();
        assert_eq!(rendered.text, "<user>\n\u{100000}é\n<assistant>\nyes</s>");
        let (begin, end) = rendered.spans[0];
        assert_eq!(&rendered.text[begin as usize..end as usize], "yes</s>");
        assert_eq!(rendered.spans.len(), 1);
    }

    #[test]
    fn generation_tags_trim_like_blocks_and_see_the_variables_around_them() {
        let body = "x{% set ns = namespace(n=0) %}\n  {% generation %}\n a {% set ns.n = 1 %}b\n  {% endgeneration %}\n{{ ns.n }}";
        let rendered = ChatTemplate::compile(body).unwrap().render("{}", 0).unwrap();
        assert_eq!(rendered, Rendered { text: "x a b\n1".to_string(), spans: vec![(1, 6)] });
        let tight = "x \n {%- generation -%} \n a \n {%- endgeneration -%} \n y";
        let rendered = ChatTemplate::compile(tight).unwrap().render("{}", 0).unwrap();
        assert_eq!(rendered, Rendered { text: "xay".to_string(), spans: vec![(1, 2)] });
    }

    #[test]
    fn a_refusal_by_the_template_carries_its_words() {
        let template = ChatTemplate::compile("{{ raise_exception('roles must alternate') }}").unwrap();
        let failure = template.render("{}", 0).unwrap_err();
        assert!(failure.0.contains("refuses these messages: roles must alternate"), "{failure}");
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let failure = ChatTemplate::compile("a\n{% if %}").err().unwrap();
        assert!(failure.0.contains("line 2"), "{failure}");
    }

    #[test]
    fn string_methods_follow_python() {
        let cases = [
            ("'\\x1c a \\n'.strip()", "a"),
            ("'xxay'.strip('xy')", "a"),
            ("'a</t>b</t>c'.rsplit('</t>', 1)[0]", "a</t>b"),
            ("'a\\r\\nb\\nc'.splitlines()|length", "3"),
            ("'abc'.removeprefix('a')", "bc"),
            ("'k=v=w'.partition('=')[2]", "v=w"),
            ("'a b'.split(' ')[-1]", "b"),
            ("' a  b '.split()|join('|')", "a|b"),
            ("'a b c'.split(maxsplit=1)[1]", "b c"),
            ("'-7'.zfill(4) ~ 'x'.ljust(2, '.') ~ 'y'.rjust(2)", "-007x. y"),
            ("'Ab'.lower() + 'Ab'.upper()", "abAB"),
            ("('  x ' | trim) ~ '|'", "x|"),
            ("'abc'[::-1]", "cba"),
            ("{'a': 1}.get('b', 2)", "2"),
            ("1e20 ", "1e+20"),
            ("0.00001|string", "1e-05"),
            ("'x'|int", "0"),
            ("'0x1F'|int(base=16)", "31"),
            ("' 2.9 '|int", "2"),
            ("'1e3'|float", "1000.0"),
            ("'abc'|center(6) ~ '|'", " abc  |"),
            ("'ab'|center(5) ~ '|'", "  ab |"),
        ];
        for (expression, wanted) in cases {
            assert_eq!(render(&format!("{{{{ {expression} }}}}"), "{}"), wanted, "{expression}");
        }
    }

    #[test]
    fn tojson_takes_its_options_by_name_and_place() {
        let context = r#"{"x":{"b":"<é>","a":1}}"#;
        assert_eq!(render("{{ x|tojson }}", context), r#"{"b": "<é>", "a": 1}"#);
        assert_eq!(render("{{ x|tojson(indent=1) }}", context), "{\n \"b\": \"<é>\",\n \"a\": 1\n}");
        assert_eq!(render("{{ x|tojson(true) }}", context), r#"{"b": "<\u00e9>", "a": 1}"#);
        assert_eq!(
            render("{{ x|tojson(sort_keys=true, separators=(',', ':')) }}", context),
            r#"{"a":1,"b":"<é>"}"#
        );
    }

    #[test]
    fn time_is_an_argument() {
        let template = ChatTemplate::compile("{{ strftime_now('%Y') }}").unwrap();
        assert_eq!(template.render("{}", 1_000_000_000).unwrap().text, "2001");
    }
}

//! Chat templates, rendered as transformers renders them.
//!
//! minijinja is Jinja in another language; what differs from Python's is mended here: the string methods that
//! templates call, `tojson`, the attribute rules of dictionaries, and Hugging Face's own `{% generation %}` tag, which
//! marks the assistant's text. The tag becomes a `{% call %}` whose function wraps its body in two private-use
//! characters; rendering takes them out again and reports where they were.

use crate::error::Failure;
use crate::pyjson::{dumps, Style};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{from_args, Kwargs, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

const NAME: &str = "chat template";
const GENERATION_FUNCTION: &str = "_ms_generation";
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
        let (source, has_generation) = replace_generation_tags(source);
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
        environment.add_filter("trim", trim);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_function(GENERATION_FUNCTION, generation);
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

/// `{%- generation -%}` to a call block with the same trimming, and whether there was one.
fn replace_generation_tags(source: &str) -> (String, bool) {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut found = false;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else { break };
        let body = &tag[2..end];
        let left = body.starts_with(['-', '+']).then(|| &body[..1]).unwrap_or("");
        let inner = &body[left.len()..];
        let right = inner.ends_with(['-', '+']).then(|| &inner[inner.len() - 1..]).unwrap_or("");
        let word = inner[..inner.len() - right.len()].trim();
        match word {
            "generation" => {
                found = true;
                out.push_str(&format!("{{%{left} call {GENERATION_FUNCTION}() {right}%}}"));
            }
            "endgeneration" => out.push_str(&format!("{{%{left} endcall {right}%}}")),
            _ => out.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
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

fn generation(state: &mut State, kwargs: Kwargs) -> Result<Value, Error> {
    let caller: Value = kwargs.get("caller")?;
    kwargs.assert_all_used()?;
    let body = caller.call(state, &[])?;
    let marker = |key| state.lookup(key).map(|v| v.to_string()).unwrap_or_default();
    Ok(Value::from(format!("{}{body}{}", marker(OPEN_KEY), marker(CLOSE_KEY))))
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

/// transformers' `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn tojson(
    value: &Value,
    args: minijinja::value::Rest<minijinja::value::ValueOrKwargs>,
) -> Result<Value, Error> {
    let all = args.into_values();
    let (positional, kwargs): (&[Value], Kwargs) = from_args(&all)?;
    let named = ["ensure_ascii", "indent", "separators", "sort_keys"];
    if positional.len() > named.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let pick = |i: usize| -> Result<Option<Value>, Error> {
        let given = match positional.get(i) {
            Some(v) => Some(v.clone()),
            None => kwargs.get::<Option<Value>>(named[i])?,
        };
        Ok(given.filter(|v| !v.is_none() && !v.is_undefined()))
    };
    let indent = match pick(1)? {
        Some(v) if v.kind() == ValueKind::String => Some(v.to_string()),
        Some(v) if v.kind() == ValueKind::Bool => Some(" ".repeat(usize::from(v.is_true()))),
        Some(v) => Some(" ".repeat(usize::try_from(v).unwrap_or(0))),
        None => None,
    };
    let mut style = Style::with_indent(indent);
    style.ensure_ascii = pick(0)?.is_some_and(|v| v.is_true());
    if let Some(separators) = pick(2)? {
        style.item_separator = separators.get_item_by_index(0)?.to_string();
        style.key_separator = separators.get_item_by_index(1)?.to_string();
    }
    style.sort_keys = pick(3)?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
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

fn trim(value: &Value, chars: Option<String>) -> Value {
    Value::from(strip(&value.to_string(), chars.as_deref(), true, true))
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
        "splitlines" => from_args::<(Option<bool>,)>(args)
            .map(|(keep,)| Value::from(split_lines(text, keep.unwrap_or(false)))),
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
        "rsplit" => from_args::<(&str, Option<usize>)>(args).map(|(s, limit)| {
            let mut parts: Vec<&str> = match limit {
                Some(n) => text.rsplitn(n + 1, s).collect(),
                None => text.rsplit(s).collect(),
            };
            parts.reverse();
            parts.into_iter().map(Value::from).collect()
        }),
        "index" => one().and_then(|s| match text.find(s) {
            Some(at) => Ok(Value::from(text[..at].chars().count())),
            None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
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
            ("'Ab'.lower() + 'Ab'.upper()", "abAB"),
            ("('  x ' | trim) ~ '|'", "x|"),
            ("'abc'[::-1]", "cba"),
            ("{'a': 1}.get('b', 2)", "2"),
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

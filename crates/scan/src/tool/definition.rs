//! A tool's definition in canonical form, so that only what a model reads can change its digest.
//!
//! Canonical JSON after RFC 8785: sorted keys, no white space. Beyond it, lists whose order means nothing
//! are sorted, because some servers write them from unordered sets.

use std::fmt;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// Fields that no model reads and that may differ from one list to the next (MCP 2025-11-25, "Tool").
/// All other fields count, also those that a later revision adds.
const UNREAD: &[&str] = &["_meta", "icons"];
/// Fields of a resource that change with its content (MCP 2025-11-25, "Resource").
const UNREAD_OF_RESOURCE: &[&str] = &["size", "annotations"];
/// Keys of JSON Schema whose lists are sets.
const SETS: &[&str] = &["required", "enum", "type"];
/// Up to here a double is a whole number exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// One tool, prompt or resource as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    name: String,
    canonical: String,
}

/// The text is not a JSON object, or too deep to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the definition is not a JSON object")
    }
}

impl std::error::Error for Unreadable {}

impl Definition {
    /// Reads one element of `tools/list` or `prompts/list`. Errors: it is not a JSON object.
    pub fn read(json: &[u8]) -> Result<Definition, Unreadable> {
        Definition::of(json, &["name"], &[])
    }

    /// Reads one element of `resources/list` or `resources/templates/list`, whose name is its URI. Errors: it is not a
    /// JSON object.
    pub fn read_resource(json: &[u8]) -> Result<Definition, Unreadable> {
        Definition::of(json, &["uri", "uriTemplate"], UNREAD_OF_RESOURCE)
    }

    /// The name is the first of these keys that is there; what nobody reads is left out.
    fn of(json: &[u8], keys: &[&str], unread: &[&str]) -> Result<Definition, Unreadable> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(json) else {
            return Err(Unreadable);
        };
        fields.retain(|key, _| !UNREAD.contains(&&**key) && !unread.contains(&&**key));
        let mut canonical = String::with_capacity(json.len());
        object(&mut canonical, &fields);
        let name = keys.iter().find_map(|key| fields.get(*key)?.as_str());
        let name = name.unwrap_or_default().to_owned();
        Ok(Definition { name, canonical })
    }

    /// Its name, or a resource's URI; empty where there is none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// SHA-256 of the canonical form.
    pub fn digest(&self) -> [u8; 32] {
        digest(self.canonical.as_bytes())
    }

    /// The canonical form: JSON, of which [`super::diff`] makes a readable difference.
    pub fn as_str(&self) -> &str {
        &self.canonical
    }
}

/// SHA-256.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn value(out: &mut String, value: &Value, sorted: bool) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => string(out, text),
        Value::Array(items) if sorted && items.iter().all(Value::is_string) => {
            let mut texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            list(out, texts.into_iter(), string);
        }
        Value::Array(items) => list(out, items.iter(), |out, item| self::value(out, item, false)),
        Value::Object(fields) => object(out, fields),
    }
}

fn object(out: &mut String, fields: &Map<String, Value>) {
    let mut fields: Vec<_> = fields.iter().collect();
    // RFC 8785, section 3.2.3: by UTF-16 code units.
    fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    out.push('{');
    for (i, (key, field)) in fields.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        string(out, key);
        out.push(':');
        value(out, field, SETS.contains(&key.as_str()));
    }
    out.push('}');
}

fn list<T>(out: &mut String, items: impl Iterator<Item = T>, write: impl Fn(&mut String, T)) {
    out.push('[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// `1.0` and `1` are one number.
fn write_number(out: &mut String, number: &Number) {
    let whole = number
        .as_f64()
        .filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < EXACT_MAX);
    let written = match whole {
        Some(whole) => write!(out, "{whole:.0}"),
        None => write!(out, "{number}"),
    };
    written.expect("a string takes all");
}

/// RFC 8785, section 3.2.2.2.
fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control)).expect("a string takes all");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(json: &str) -> [u8; 32] {
        Definition::read(json.as_bytes()).unwrap().digest()
    }

    #[test]
    fn what_means_the_same_has_one_digest() {
        let one = r#"{"name":"add","description":"Adds.","inputSchema":{"type":"object","required":["a","b"],"properties":{"a":{"type":"number","minimum":1.0}}}}"#;
        let other = r#"{ "inputSchema": {"properties": {"a":{"minimum":1,"type":"number"}}, "required":["b","a"], "type":"object"},
            "_meta": {"at": 17}, "icons": [{"src": "https://cdn.example/v2.png"}], "description":"\u0041dds.", "name":"add" }"#;
        assert_eq!(digest_of(one), digest_of(other));
    }

    #[test]
    fn whatever_a_model_reads_changes_the_digest() {
        let base = r#"{"name":"a","description":"d","inputSchema":{"enum":["x"]}}"#;
        for other in [
            r#"{"name":"b","description":"d","inputSchema":{"enum":["x"]}}"#,
            r#"{"name":"a","description":"d ","inputSchema":{"enum":["x"]}}"#,
            "{\"name\":\"a\",\"description\":\"d\u{200b}\",\"inputSchema\":{\"enum\":[\"x\"]}}",
            r#"{"name":"a","description":"d","inputSchema":{"enum":["x","y"]}}"#,
            r#"{"name":"a","title":"A","description":"d","inputSchema":{"enum":["x"]}}"#,
            r#"{"name":"a","description":"d","inputSchema":{"enum":["x"]},"outputSchema":{}}"#,
            r#"{"name":"a","description":"d","inputSchema":{"enum":["x"]},"annotations":{"readOnlyHint":true}}"#,
            r#"{"name":"a","description":"d","inputSchema":{"enum":["x"]},"later":1}"#,
            r#"{"name":"a","description":null,"inputSchema":{"enum":["x"]}}"#,
        ] {
            assert_ne!(digest_of(base), digest_of(other), "{other}");
        }
        // The order of other lists means something.
        assert_ne!(
            digest_of(r#"{"examples":["a","b"]}"#),
            digest_of(r#"{"examples":["b","a"]}"#)
        );
    }

    #[test]
    fn the_canonical_form_is_json() {
        let json =
            "{\"b\":\"\\u0001\\n\\\"\\\\é\",\"a\":[1.5,-0.0,1e300,18446744073709551615,true,null]}";
        let read = Definition::read(json.as_bytes()).unwrap();
        let again = Definition::read(read.as_str().as_bytes()).unwrap();
        assert_eq!(read, again);
        assert!(
            read.as_str().starts_with("{\"a\":[1.5,"),
            "{}",
            read.as_str()
        );
    }

    #[test]
    fn what_a_resource_holds_now_is_not_what_it_is() {
        let read = |json: &str| Definition::read_resource(json.as_bytes()).unwrap();
        let one = read(r#"{"uri":"file:///a","name":"a","size":1,"annotations":{"priority":1}}"#);
        assert_eq!(one.name(), "file:///a");
        assert_eq!(one, read(r#"{"name":"a","size":2,"uri":"file:///a"}"#));
        assert_ne!(
            one,
            read(r#"{"uri":"file:///a","name":"a","description":"b"}"#)
        );
        let template = read(r#"{"uriTemplate":"file:///{path}","name":"files"}"#);
        assert_eq!(template.name(), "file:///{path}");
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        let deep = "[".repeat(100_000);
        for bad in ["", "[]", "1", "{", "{\"a\":}", deep.as_str()] {
            assert_eq!(Definition::read(bad.as_bytes()), Err(Unreadable));
        }
        assert_eq!(Definition::read(b"{\"a\":\"\xff\"}"), Err(Unreadable));
    }
}

//! The settings that hold, as a configuration that could be written: what was written, and the defaults.
//!
//! It prints what the file says and never looks behind a reference, so it cannot print a secret. `x-with` names the key
//! without which another says nothing.

use serde_json::Value;

use crate::schema::{children, default, is_optional};

/// Stands behind a value that nobody wrote.
const MARK: &str = " # default";

/// YAML of every key that has a value; defaults are marked.
pub(crate) fn show(schema: &Value, tree: &Value) -> String {
    let mut text = String::new();
    group(&mut text, schema, Some(tree), 0);
    text
}

/// The keys of the whole file that have defaults below these names, as YAML.
pub fn defaults(schema: &Value, names: &[&str]) -> String {
    let mut text = String::new();
    for (name, key) in children(schema).filter(|(name, _)| names.contains(name)) {
        entry(&mut text, name, None, key, 0);
    }
    text.replace(MARK, "")
}

fn group(text: &mut String, schema: &Value, tree: Option<&Value>, depth: usize) {
    for (name, key) in children(schema).filter(|(name, _)| *name != "*") {
        let value = tree.and_then(|tree| tree.get(name));
        let with = key.get("x-with").and_then(Value::as_str);
        let says = with.is_none_or(|with| tree.is_some_and(|tree| tree.get(with).is_some()));
        if value.is_some() || says {
            entry(text, name, value, key, depth);
        }
    }
}

fn entry(text: &mut String, name: &str, value: Option<&Value>, schema: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let name = quoted(name);
    let fixed = || children(schema).any(|(name, _)| name != "*");
    match value {
        None => match default(schema) {
            Some(default) => text.push_str(&format!("{indent}{name}: {default}{MARK}\n")),
            None if has_default(schema) => {
                text.push_str(&format!("{indent}{name}:\n"));
                group(text, schema, None, depth + 1);
            }
            None => {}
        },
        Some(value @ Value::Object(_)) if fixed() => {
            text.push_str(&format!("{indent}{name}:\n"));
            group(text, schema, Some(value), depth + 1);
        }
        Some(Value::Object(map)) if !map.is_empty() => {
            text.push_str(&format!("{indent}{name}:\n"));
            let of = children(schema).next().map_or(&Value::Null, |(_, of)| of);
            for (name, value) in map {
                entry(text, name, Some(value), of, depth + 1);
            }
        }
        Some(value) => text.push_str(&format!("{indent}{name}: {}\n", inline(value))),
    }
}

/// Whether anything below a group holds where nothing is written.
fn has_default(schema: &Value) -> bool {
    let holds = |(name, key): (&str, &Value)| {
        let here = default(key).is_some() && key.get("x-with").is_none();
        name != "*" && (here || has_default(key))
    };
    !is_optional(schema) && children(schema).any(holds)
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let pairs = map
                .iter()
                .map(|(key, value)| format!("{}: {}", quoted(key), inline(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A text as YAML: plain where that cannot be misread, or else as a JSON string, which is YAML too.
fn quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"./_-:".contains(&b);
    let first = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric() || b"./".contains(&b));
    let null = text.eq_ignore_ascii_case("null");
    if first && !null && !text.ends_with(':') && text.bytes().all(plain) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

//! The settings that hold, as a configuration that could be written: what was written, and the defaults.
//!
//! It prints what the file says and never looks behind a reference, so it cannot print a secret.

use super::file::File;
use super::keys::{self, Kind};
use super::read::{CHILD_ONLY, HTTP_ONLY};
use super::yaml::{Entry, Node, Value};

/// Stands behind a value that nobody wrote.
const MARK: &str = " # default";

/// YAML of every key that has a value; defaults are marked.
pub(crate) fn show(file: &File) -> String {
    let mut text = String::new();
    group(&mut text, Some(&file.root), "", 0);
    text
}

/// The keys of the whole file that have defaults below these names, as YAML.
pub(crate) fn defaults(names: &[&str]) -> String {
    let mut text = String::new();
    for (name, key) in keys::children("").filter(|(name, _)| names.contains(name)) {
        entry(&mut text, name, None, key, 0);
    }
    text.replace(MARK, "")
}

fn group(text: &mut String, node: Option<&Node>, pattern: &str, depth: usize) {
    for (name, key) in keys::children(pattern) {
        let value = node.and_then(|node| node.get(name));
        if value.is_none() && pattern == "mcp.*" && of_the_other_kind(node, name) {
            continue;
        }
        entry(text, name, value, key, depth);
    }
}

/// Whether a key belongs to the kind of server that this one is not.
fn of_the_other_kind(server: Option<&Node>, key: &str) -> bool {
    let other = match server.and_then(|node| node.get("url")) {
        Some(_) => CHILD_ONLY,
        None => HTTP_ONLY,
    };
    other.contains(&key)
}

fn entry(text: &mut String, name: &str, value: Option<&Node>, key: &keys::Key, depth: usize) {
    let indent = "  ".repeat(depth);
    let name = quoted(name);
    match (key.kind, value.map(|node| &node.value)) {
        (Kind::Group, None) if has_default(key) => {
            text.push_str(&format!("{indent}{name}:\n"));
            group(text, None, key.path, depth + 1);
        }
        (_, None) => {
            if let Some(default) = key.default.text() {
                text.push_str(&format!("{indent}{name}: {default}{MARK}\n"));
            }
        }
        (Kind::Group | Kind::Feature | Kind::GroupOr(_), Some(Value::Map(_))) => {
            text.push_str(&format!("{indent}{name}:\n"));
            group(text, value, key.path, depth + 1);
        }
        (_, Some(Value::Map(entries))) if !entries.is_empty() => {
            let (_, row) = keys::children(key.path)
                .next()
                .expect("a map by name has a row for its values");
            text.push_str(&format!("{indent}{name}:\n"));
            for below in entries {
                entry(text, &below.key, Some(&below.node), row, depth + 1);
            }
        }
        (_, Some(value)) => text.push_str(&format!("{indent}{name}: {}\n", inline(value))),
    }
}

/// Whether anything below a group holds where nothing is written.
fn has_default(key: &keys::Key) -> bool {
    keys::children(key.path).any(|(_, row)| row.default.text().is_some() || has_default(row))
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Text(text) => quoted(text),
        Value::List(nodes) => {
            let items: Vec<String> = nodes.iter().map(|node| inline(&node.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let pair = |e: &Entry| format!("{}: {}", quoted(&e.key), inline(&e.node.value));
            let pairs: Vec<String> = entries.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
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

//! Writes a tree as YAML: maps and lists as blocks, texts in quotes as JSON has them, which YAML reads alike.

use std::fmt::Write as _;

use serde_json::Value;

/// The text of a map, with a comment before it.
pub(super) fn text(tree: &Value, comment: &str) -> String {
    let mut out = format!("# {comment}\n");
    block(&mut out, tree, 0);
    out
}

fn block(out: &mut String, value: &Value, level: usize) {
    let indent = "  ".repeat(level);
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let _ = write!(out, "{indent}{}:", key(name));
                below(out, inner, level);
            }
        }
        Value::Array(items) => {
            for inner in items {
                let _ = write!(out, "{indent}-");
                below(out, inner, level);
            }
        }
        other => {
            let _ = writeln!(out, "{indent}{other}");
        }
    }
}

/// What stands behind a key or a dash: a scalar on its line, a small list as it is, everything else below.
fn below(out: &mut String, value: &Value, level: usize) {
    let is_flat = match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items
            .iter()
            .all(|item| !item.is_object() && !item.is_array()),
        _ => true,
    };
    if is_flat {
        let _ = writeln!(out, " {value}");
    } else {
        out.push('\n');
        block(out, value, level + 1);
    }
}

/// A key without quotes where that is plain.
fn key(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&name);
    if is_plain {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::scenario;

    #[test]
    fn what_is_written_is_read_alike() {
        let tree = json!({ "a": { "x y": "z: \"#\" \u{7f}\n", "no": [1, "two", true], "e": {}, "l": [] },
            "list": [{ "k": 1 }, [{ "deep": null }], "s"] });
        let text = super::text(&tree, "a comment");
        assert_eq!(scenario::tree(&text).unwrap(), tree, "{text}");
    }
}

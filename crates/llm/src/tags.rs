//! Tags: words by which an agent finds its calls in the account of usage again, as clients of LiteLLM write them.
//!
//! They stand in the field `x-litellm-tags` (words with commas between) or in the body's `metadata.tags` (a list), and go into the
//! record. No policy and no budget reads them. A list in `metadata.tags` is told to no provider, since none takes one there.

use std::ops::Range;

use base::{Json, JsonKind, JsonValue, Refusal};
use http::HeaderMap;
use serde_json::Value;

use crate::lane::invalid;

/// The field that names tags.
const FIELD: &str = "x-litellm-tags";
/// Most tags of one call, and characters of one.
const TAGS_MAX: usize = 8;
const TAG_CHARS_MAX: usize = 64;
/// What a tag may be made of beside letters and digits of ASCII.
const TAG_MARKS: &[u8] = b"._:/@=+-";

/// The tags of one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTags {
    /// Each once, in the order of their letters.
    pub(crate) names: Vec<String>,
    /// Where the body's `metadata` stands, if a list of tags is in it.
    pub(crate) metadata: Option<Range<usize>>,
}

impl CallTags {
    /// Those that a request names.
    ///
    /// # Errors
    /// `llm.body_invalid` where something among them is no tag, or where there are too many.
    pub(crate) fn of(fields: &HeaderMap, body: JsonValue<'_>) -> Result<CallTags, Refusal> {
        let mut names = Vec::new();
        for value in fields.get_all(FIELD) {
            let text = value.to_str().map_err(|_| no_tag(FIELD))?;
            let words = text.split(',').map(str::trim);
            names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        }
        let metadata = body.get("metadata");
        let list = metadata.and_then(|metadata| metadata.get("tags"));
        let list = list.filter(|list| list.kind() == JsonKind::Array);
        for item in list.into_iter().flat_map(JsonValue::items) {
            let name = item.as_str().ok_or_else(|| no_tag("metadata.tags"))?;
            names.push(name.into_owned());
        }
        names.sort();
        names.dedup();
        if names.len() > TAGS_MAX {
            return Err(invalid(&format!("a call has at most {TAGS_MAX} tags")));
        }
        if !names.iter().all(|name| is_tag(name)) {
            return Err(no_tag(&format!("{FIELD} or metadata.tags")));
        }
        let metadata = metadata.filter(|_| list.is_some());
        Ok(CallTags {
            names,
            metadata: metadata.map(JsonValue::span),
        })
    }
}

fn is_tag(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || TAG_MARKS.contains(&byte);
    (1..=TAG_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn no_tag(place: &str) -> Refusal {
    invalid(&format!(
        "{place} names something that is no tag: up to {TAG_CHARS_MAX} letters, digits and . _ : / @ = + -"
    ))
}

/// An object without its member `tags`; the others as they were written. Nothing where it is no object.
pub(crate) fn without_tags(metadata: &[u8]) -> Option<Vec<u8>> {
    let json = Json::read(metadata).ok()?;
    let mut others = Vec::new();
    for (key, value) in json.root().members() {
        let name = key.name();
        if &*name != "tags" {
            others.push(format!("{}:{}", Value::from(&*name), value.text()));
        }
    }
    Some(format!("{{{}}}", others.join(",")).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(field: &str, body: &str) -> Result<Vec<String>, &'static str> {
        let json = Json::read(body.as_bytes()).unwrap();
        let mut fields = HeaderMap::new();
        fields.insert(FIELD, field.parse().unwrap());
        let tags = CallTags::of(&fields, json.root());
        tags.map(|tags| tags.names)
            .map_err(|refusal| refusal.code.name)
    }

    #[test]
    fn tags_stand_in_a_field_and_in_a_list() {
        let both = of(
            "team:rivers, b",
            r#"{"metadata":{"tags":["b","a/1"],"x":"y"}}"#,
        );
        assert_eq!(both.unwrap(), ["a/1", "b", "team:rivers"]);
        // A text there is the client's own.
        assert_eq!(of("", r#"{"metadata":{"tags":"a b"}}"#).unwrap(), [""; 0]);
        assert_eq!(of("", r#"{"metadata":[{"tags":["x"]}]}"#).unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_tag_and_too_many_are_refused() {
        let long = "a".repeat(TAG_CHARS_MAX + 1);
        let many: Vec<String> = (0..=TAGS_MAX).map(|n| n.to_string()).collect();
        for field in [long.as_str(), "a b", "a\tb", &many.join(",")] {
            assert_eq!(of(field, "{}"), Err("llm.body_invalid"), "{field}");
        }
        for list in [
            r#"[1]"#,
            r#"[""]"#,
            r#"["ä"]"#,
            r#"["a\u0000"]"#,
            r#"[["a"]]"#,
        ] {
            let body = format!(r#"{{"metadata":{{"tags":{list}}}}}"#);
            assert_eq!(of("", &body), Err("llm.body_invalid"), "{list}");
        }
    }

    #[test]
    fn a_list_is_taken_out_and_the_rest_stays() {
        let of = |text: &str| String::from_utf8(without_tags(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            of(r#"{ "a": 1.50, "tags": ["x"], "b\n" : [ 1 ] }"#),
            r#"{"a":1.50,"b\n":[ 1 ]}"#
        );
        assert_eq!(of(r#"{"tags":[]}"#), "{}");
    }
}

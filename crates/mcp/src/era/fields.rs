//! The header fields of 2026-07-28 that say again what the body says, so that proxies can route by them: read, held against
//! the body, and made anew from the body that goes on.
//!
//! A value that is not plain printable ASCII is written as `=?base64?…?=`, and so is one that looks like that.
//!
//! Source: MCP 2026-07-28, "Transports", sections "Standard Request Headers" and "Custom Headers from Tool Parameters".

use std::borrow::Cow;

use base::{JsonValue, Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gate::{ContentPart, PartContent, Role};
use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Begins the name of each field that says an argument.
pub(super) const PARAM: &str = "mcp-param-";

/// Fields of arguments that one request may have, and the bytes of their names and values together.
const PARAMS_MAX: usize = 32;
const PARAM_BYTES_MAX: usize = 8 * 1024;

const BASE64_BEGIN: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// A field of an argument as a client sent it.
#[derive(Clone, Debug)]
pub(crate) struct GivenParam {
    pub(crate) name: HeaderName,
    /// What it says, decoded.
    pub(crate) text: String,
}

impl GivenParam {
    /// It as a part of the call, for the scan.
    pub(crate) fn part(&self) -> ContentPart<'_> {
        ContentPart {
            role: Role::Header,
            path: self.name.as_str(),
            content: PartContent::Text(self.text.as_bytes()),
        }
    }
}

/// The revision that the fields name.
///
/// # Errors
/// `mcp.header_mismatch` where they name two.
pub(crate) fn revision(head: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let value = one(head, &REVISION)?;
    // A value that is no text is as unknown as an empty one.
    Ok(value.map(|value| value.to_str().unwrap_or_default()))
}

/// Holds `Mcp-Method` against the body's method.
pub(crate) fn check_method(head: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match one(head, &METHOD)? {
        Some(value) if value.as_bytes() == method.as_bytes() => Ok(()),
        Some(_) => Err(mismatch("Mcp-Method is not the body's method")),
        None => Err(mismatch("Mcp-Method is missing")),
    }
}

/// Holds `Mcp-Name` against what the body names. Whether it is there.
pub(crate) fn check_name(
    head: &HeaderMap,
    method: &str,
    params: Option<JsonValue<'_>>,
) -> Result<bool, Refusal> {
    let given = one(head, &NAME)?;
    let Some((member, is_needed)) = named_by(method) else {
        return Ok(given.is_some());
    };
    let body = params.and_then(|params| params.get(member));
    let body = body.and_then(JsonValue::as_str);
    match (given.map(decoded), body) {
        // The body lacks what it has to have: its server says so.
        (None, None) => Ok(false),
        (None, Some(_)) if is_needed => Err(mismatch("Mcp-Name is missing")),
        (None, Some(_)) => Ok(false),
        (Some(Some(given)), Some(body)) if *given == *body => Ok(true),
        (Some(_), None) if !is_needed => Ok(false),
        (Some(_), _) => Err(mismatch("Mcp-Name is not what the body names")),
    }
}

/// The member of `params` that a request names a thing by, and whether its field has to be there.
fn named_by(method: &str) -> Option<(&'static str, bool)> {
    match method {
        "tools/call" | "prompts/get" => Some(("name", true)),
        "resources/read" => Some(("uri", true)),
        // The extension of tasks (SEP-2663).
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some(("taskId", false)),
        _ => None,
    }
}

/// The `Mcp-Param-*` fields of a request.
///
/// # Errors
/// `mcp.header_mismatch` where one comes twice, is not well encoded, or they are too many.
pub(crate) fn params(head: &HeaderMap) -> Result<Vec<GivenParam>, Refusal> {
    let mut params: Vec<GivenParam> = Vec::new();
    let mut bytes = 0;
    for (name, value) in head {
        if !name.as_str().starts_with(PARAM) {
            continue;
        }
        bytes += name.as_str().len() + value.len();
        if params.len() == PARAMS_MAX || bytes > PARAM_BYTES_MAX {
            return Err(mismatch("there are too many Mcp-Param fields"));
        }
        if params.iter().any(|known| known.name == name) {
            return Err(mismatch("an Mcp-Param field comes twice"));
        }
        let text =
            decoded(value).ok_or_else(|| mismatch("an Mcp-Param field is not encoded well"))?;
        params.push(GivenParam {
            name: name.clone(),
            text: text.into_owned(),
        });
    }
    Ok(params)
}

/// The fields that a message goes on with, as its body says it. `is_named` says that the client sent an `Mcp-Name`.
pub(crate) fn put(
    fields: &mut HeaderMap,
    method: &str,
    params: Option<JsonValue<'_>>,
    is_named: bool,
) {
    if let Ok(method) = HeaderValue::from_str(method) {
        fields.insert(METHOD, method);
    }
    let named = named_by(method).filter(|(_, is_needed)| *is_needed || is_named);
    let value = named.and_then(|(member, _)| params?.get(member)?.as_str());
    if let Some(value) = value {
        fields.insert(NAME, encoded(&value));
    }
}

/// The one value of a field.
fn one<'h>(head: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Refusal> {
    let mut values = head.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        // Of two, each reader would choose its own.
        (_, Some(_)) => Err(mismatch("a field that says what the body says comes twice")),
    }
}

pub(super) fn mismatch(public: &'static str) -> Refusal {
    Refusal::new(refusal::HEADER_MISMATCH, public)
}

/// A text as the value of a field.
pub(crate) fn encoded(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let is_bare = text.trim_matches([' ', '\t']).len() == text.len();
    let value = match is_plain && is_bare && payload(text).is_none() {
        true => Cow::Borrowed(text),
        false => format!("{BASE64_BEGIN}{}{BASE64_END}", STANDARD.encode(text)).into(),
    };
    HeaderValue::from_str(&value).expect("printable ASCII is a field's value")
}

/// What the value of a field says; nothing where it is not encoded as it should be.
pub(crate) fn decoded(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok()?;
    let Some(payload) = payload(text) else {
        return Some(Cow::Borrowed(text));
    };
    // The engine takes canonical base64 alone, with its padding.
    let bytes = STANDARD.decode(payload).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn payload(text: &str) -> Option<&str> {
    text.strip_prefix(BASE64_BEGIN)?.strip_suffix(BASE64_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_the_specification_encodes_them() {
        // MCP 2026-07-28, "Transports", table of "Value Encoding".
        for (text, value) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            (
                "=?base64?SGVsbG8=?=",
                "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?=",
            ),
            ("", ""),
            ("a b", "a b"),
        ] {
            assert_eq!(encoded(text).to_str().unwrap(), value, "{text:?}");
            assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
        }
        for wrong in [
            "=?base64?SGVsbG8?=",
            "=?base64?!?=",
            "=?base64?SGVsbG9=?=",
            "=?base64?/w==?=",
        ] {
            let wrong = HeaderValue::from_static(wrong);
            assert_eq!(decoded(&wrong), None, "{wrong:?}");
        }
    }
}

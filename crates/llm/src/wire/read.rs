//! A request's body, read once: what is asked, and who says which part of it.
//!
//! Each part is judged by its role: what a tool answered came in from elsewhere and is nobody's order, what the system or the
//! user says may give orders. Media in base64 are left out, because nothing reads them; the coverage says so.

use std::borrow::Cow;
use std::ops::Range;

use base::{JsonKind, JsonValue};
use gate::{ContentPart, PartContent, Role};

/// Members that hold media, or point to them.
const MEDIA: &[&str] = &[
    "data",
    "url",
    "image_url",
    "file_data",
    "file_url",
    "image_data",
];
/// What tells media among the members beside `data`.
const MEDIA_TYPES: &[&str] = &["media_type", "mimeType", "mime_type", "format"];

/// What a request asks of a model.
#[derive(Default)]
pub(crate) struct AskedModel<'j> {
    /// As the body names it.
    pub(crate) model: Option<JsonValue<'j>>,
    /// The member `stream`, where there is one.
    pub(crate) stream: Option<JsonValue<'j>>,
    /// Most tokens of the answer, where the request says it.
    pub(crate) output_max: Option<u64>,
    /// How many answers it asks for, where it says so.
    pub(crate) answers: Option<u64>,
    /// What tells one conversation from another, where the client says it.
    pub(crate) conversation: Option<Cow<'j, str>>,
    pub(crate) parts: Vec<SaidPart<'j>>,
    /// Bytes of media that are not read.
    pub(crate) media_bytes: usize,
}

/// One part of a request.
pub(crate) struct SaidPart<'j> {
    pub(crate) role: Role,
    /// Where it stands in the body: `messages[3]`.
    pub(crate) path: String,
    pub(crate) json: JsonValue<'j>,
}

impl<'j> AskedModel<'j> {
    /// Takes what all dialects have at the top of a body; whether the member was one of these.
    pub(crate) fn common(&mut self, name: &str, value: JsonValue<'j>) {
        match name {
            "model" => self.model = Some(value),
            "stream" => self.stream = Some(value),
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                self.output_max = self.output_max.max(number(value));
            }
            "n" => self.answers = number(value),
            "prompt_cache_key" => self.conversation = value.as_str(),
            _ => {}
        }
    }

    /// Adds a value that one role says.
    pub(crate) fn add(&mut self, role: Role, path: String, json: JsonValue<'j>) {
        if !has_media(json) {
            self.parts.push(SaidPart { role, path, json });
            return;
        }
        match json.kind() {
            JsonKind::Array => {
                for (i, item) in json.items().enumerate() {
                    self.add(role, format!("{path}[{i}]"), item);
                }
            }
            JsonKind::Object => {
                let is_typed = MEDIA_TYPES.iter().any(|name| json.get(name).is_some());
                for (key, value) in json.members() {
                    let name = key.name();
                    match is_media(&name, value, is_typed) {
                        true => self.media_bytes += value.bytes().len(),
                        false => self.add(role, format!("{path}.{name}"), value),
                    }
                }
            }
            _ => self.parts.push(SaidPart { role, path, json }),
        }
    }

    /// The parts as the gate takes them.
    pub(crate) fn content(&self) -> Vec<ContentPart<'_>> {
        let parts = self.parts.iter().map(|part| ContentPart {
            role: part.role,
            path: &part.path,
            content: PartContent::Json(part.json),
        });
        parts.collect()
    }

    /// Where each part stands in the body.
    pub(crate) fn spans(&self) -> Vec<Range<usize>> {
        self.parts.iter().map(|part| part.json.span()).collect()
    }
}

/// A whole number that is not negative.
pub(crate) fn number(value: JsonValue<'_>) -> Option<u64> {
    value.text().parse().ok()
}

/// A quick look whether any media can stand in a value.
fn has_media(json: JsonValue<'_>) -> bool {
    let bytes = json.bytes();
    let has = |what: &[u8]| memchr::memmem::find(bytes, what).is_some();
    has(b";base64,") || (has(b"\"data\"") && MEDIA_TYPES.iter().any(|name| has(name.as_bytes())))
}

/// Whether a member is a medium in base64. What a URL names elsewhere is a text, and is read.
fn is_media(name: &str, value: JsonValue<'_>, is_typed: bool) -> bool {
    if !MEDIA.contains(&name) || value.kind() != JsonKind::String {
        return false;
    }
    let inside = value.bytes();
    let inside = inside.get(1..inside.len() - 1).unwrap_or_default();
    let coded = match inside.strip_prefix(b"data:") {
        Some(url) => memchr::memmem::find(url, b";base64,").map(|at| &url[at + 8..]),
        None if name == "data" && is_typed => Some(inside),
        None => None,
    };
    coded.is_some_and(|coded| coded.iter().all(|byte| is_base64(*byte)))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(&byte)
}

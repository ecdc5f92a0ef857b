//! What a client says on the connection: `response.create`, which is the body of the same request over HTTP with an envelope around
//! it, and what of an earlier response it goes on with.
//!
//! Members go on as they were written; only the envelope is left out. Nothing else is taken.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use base::{Json, JsonKind, JsonValue, Refusal};
use serde_json::Value;

use crate::lane::{check_names, invalid, not_json};

/// Longest name of a stream, in bytes.
const STREAM_ID_BYTES_MAX: usize = 256;
/// Members of the envelope, and those that HTTP alone has.
const ENVELOPE: &[&str] = &["type", "stream_id", "generate", "stream", "background"];

/// One `response.create`.
pub(crate) struct CreateMessage {
    text: String,
    /// The members of the body: the name, and where the value stands in the text.
    members: Vec<(String, Range<usize>)>,
    /// The responses of one name come one after another; those of another beside them.
    pub(super) stream_id: Option<String>,
    /// The response that this one goes on with.
    pub(super) previous: Option<String>,
    /// Whether a model is to say anything; else the request is only made ready for the next.
    pub(super) generates: bool,
}

impl CreateMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// `llm.body_invalid`.
    pub(crate) fn read(text: String) -> Result<CreateMessage, Refusal> {
        let json = Json::read(text.as_bytes()).map_err(not_json)?;
        let root = json.root();
        if root.kind() != JsonKind::Object {
            return Err(invalid("the message is no JSON object"));
        }
        check_names(root)?;
        let word = |name: &str| root.get(name).and_then(JsonValue::as_str);
        if word("type").as_deref() != Some("response.create") {
            return Err(invalid("only response.create is taken on this connection"));
        }
        if root.get("background").is_some_and(|is| is.text() == "true") {
            return Err(invalid("a WebSocket has no responses in the background"));
        }
        let stream_id = match root.get("stream_id").filter(|id| id.text() != "null") {
            None => None,
            Some(id) => {
                let id = id.as_str().filter(|id| id.len() <= STREAM_ID_BYTES_MAX);
                let id = id.ok_or_else(|| invalid("stream_id is no text, or too long a one"))?;
                Some(id.into_owned())
            }
        };
        let generates = match root.get("generate").map(|generates| generates.text()) {
            None | Some("null" | "true") => true,
            Some("false") => false,
            Some(_) => return Err(invalid("generate is neither true nor false")),
        };
        let previous = word("previous_response_id").map(|id| id.into_owned());
        let members = root.members().map(|(key, value)| (key.name(), value));
        let members = members.filter(|(name, _)| !ENVELOPE.contains(&&**name));
        let members = members.map(|(name, value)| (name.into_owned(), value.span()));
        let members = members.collect();
        Ok(CreateMessage {
            members,
            stream_id,
            previous,
            generates,
            text,
        })
    }

    /// Bytes of it.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The body of the same request over HTTP, which goes on with `before` where that is known here.
    pub(crate) fn body(&self, before: Option<&KeptResponse>) -> Vec<u8> {
        let mut body =
            String::with_capacity(self.text.len() + before.map_or(0, |it| it.items.len()));
        body.push('{');
        for (name, span) in &self.members {
            let is_written_anew = name == "input" || name == "previous_response_id";
            if before.is_none() || !is_written_anew {
                body.push_str(&Value::from(name.as_str()).to_string());
                body.push(':');
                body.push_str(&self.text[span.clone()]);
                body.push(',');
            }
        }
        if before.is_some() {
            body.push_str("\"input\":[");
            body.push_str(&self.items(before));
            body.push_str("],");
        }
        body.push_str("\"stream\":true}");
        body.into_bytes()
    }

    /// All that was said so far: the items of the response before, and those of this message.
    pub(super) fn items(&self, before: Option<&KeptResponse>) -> String {
        let mut items = before.map_or_else(String::new, |before| before.items.clone());
        let mut members = self.members.iter();
        if let Some((_, span)) = members.find(|(name, _)| name == "input") {
            join(&mut items, &items_of(&self.text[span.clone()]));
        }
        items
    }
}

/// The items that an `input` stands for: a text is one message of the user.
fn items_of(input: &str) -> String {
    match input
        .strip_prefix('[')
        .and_then(|input| input.strip_suffix(']'))
    {
        Some(items) => items.trim().to_owned(),
        None if input.starts_with('"') => {
            format!("{{\"type\":\"message\",\"role\":\"user\",\"content\":{input}}}")
        }
        None => String::new(),
    }
}

/// Adds items behind others.
pub(super) fn join(items: &mut String, more: &str) {
    if !items.is_empty() && !more.is_empty() {
        items.push(',');
    }
    items.push_str(more);
}

/// What a response and all before it said, for the next to go on with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeptResponse {
    pub(crate) id: String,
    /// JSON values with commas between them.
    pub(crate) items: String,
}

/// The last response of each stream of a connection, as far as no provider keeps it.
pub(super) struct KeptResponses {
    /// Those that were kept first come first.
    kept: VecDeque<(Option<String>, Rc<KeptResponse>)>,
    bytes: usize,
    bytes_max: usize,
}

impl KeptResponses {
    pub(super) fn new(bytes_max: usize) -> KeptResponses {
        KeptResponses {
            kept: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Rc<KeptResponse>> {
        let mut kept = self.kept.iter();
        let found = kept.find(|(_, response)| response.id == id);
        found.map(|(_, response)| Rc::clone(response))
    }

    /// Keeps the last response of a stream in the place of the one before. Where that is too much together, the oldest go.
    pub(super) fn keep(&mut self, stream_id: Option<String>, response: KeptResponse) {
        self.forget(|(of, _)| *of == stream_id);
        self.bytes += response.items.len();
        self.kept.push_back((stream_id, Rc::new(response)));
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= oldest.items.len();
        }
    }

    /// A request that goes on with a response failed: by the protocol that response is not to be gone on with again.
    pub(super) fn failed(&mut self, id: &str) {
        self.forget(|(_, response)| response.id == id);
    }

    fn forget(&mut self, which: impl Fn(&(Option<String>, Rc<KeptResponse>)) -> bool) {
        let bytes = &mut self.bytes;
        self.kept.retain(|kept| {
            let goes = which(kept);
            *bytes -= if goes { kept.1.items.len() } else { 0 };
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CreateMessage {
        CreateMessage::read(text.to_owned()).unwrap()
    }

    fn body(message: &CreateMessage, before: Option<&KeptResponse>) -> String {
        String::from_utf8(message.body(before)).unwrap()
    }

    #[test]
    fn members_go_on_as_they_were_written_and_the_envelope_does_not() {
        let text = r#"{"type":"response.create", "model":"m", "new":{"a" : 1.50}, "stream":false, "stream_id":"s", "generate":false,
            "input":"h\u00e9", "previous_response_id":"r"}"#;
        let message = read(text);
        assert_eq!(message.stream_id.as_deref(), Some("s"));
        assert!(!message.generates);
        assert_eq!(
            body(&message, None),
            r#"{"model":"m","new":{"a" : 1.50},"input":"h\u00e9","previous_response_id":"r","stream":true}"#
        );
        let before = KeptResponse {
            id: "r".to_owned(),
            items: r#"{"a":1}"#.to_owned(),
        };
        let user = r#"{"type":"message","role":"user","content":"h\u00e9"}"#;
        assert_eq!(
            body(&message, Some(&before)),
            format!(
                r#"{{"model":"m","new":{{"a" : 1.50}},"input":[{{"a":1}},{user}],"stream":true}}"#
            )
        );
        let empty = read(r#"{"type":"response.create","input":[ ]}"#);
        assert_eq!(
            body(&empty, Some(&before)),
            r#"{"input":[{"a":1}],"stream":true}"#
        );
    }

    #[test]
    fn what_is_no_response_create_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"type":"response.steer"}"#,
            r#"{"type":"response.create","type":"response.create"}"#,
            r#"{"type":"response.create","background":true}"#,
            r#"{"type":"response.create","stream_id":7}"#,
            r#"{"type":"response.create","generate":"no"}"#,
        ] {
            let refused = CreateMessage::read(text.to_owned());
            let refused = refused.err().map(|refusal| refusal.code.name);
            assert_eq!(refused, Some("llm.body_invalid"), "{text}");
        }
    }

    #[test]
    fn the_last_response_of_each_stream_is_kept_within_bounds() {
        let mut kept = KeptResponses::new(10);
        let response = |id: &str, bytes: usize| KeptResponse {
            id: id.to_owned(),
            items: "x".repeat(bytes),
        };
        let there = |kept: &KeptResponses| {
            let ids = ["a", "b", "c", "d"].into_iter();
            ids.filter(|id| kept.get(id).is_some()).collect::<String>()
        };
        kept.keep(None, response("a", 4));
        kept.keep(Some("s".to_owned()), response("b", 4));
        assert_eq!(there(&kept), "ab");
        kept.keep(None, response("c", 5));
        assert_eq!(there(&kept), "bc");
        kept.failed("b");
        assert_eq!((there(&kept).as_str(), kept.bytes), ("c", 5));
        kept.keep(None, response("d", 11));
        assert_eq!((there(&kept).as_str(), kept.bytes), ("", 0));
    }
}

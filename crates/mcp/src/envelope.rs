//! Reads a JSON-RPC 2.0 message without copying it: what a judgement needs, and no more.
//!
//! The text was indexed ([`Json`]), and the whole of it is checked first: no member twice in one object, also in another
//! spelling. Two readers of such a text may see two different values, so what was judged might not
//! be what is carried out.

mod check;
pub(crate) mod names;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use base::{Json, JsonError, JsonKind, JsonValue, fold};
use bytes::Bytes;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a text is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    Json,
    Duplicate,
    /// Two members of one object are equal when their case is folded.
    Folded,
    /// A member that has a meaning is in another spelling than that one.
    Spelling,
    Deep,
    Batch,
    /// JSON, but not JSON-RPC 2.0; the text says what is missing.
    Message(&'static str),
}

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Agent,
    Server,
}

/// One message, by the fields that it has (JSON-RPC 2.0, sections 4 and 5).
#[derive(Clone, Debug)]
pub enum Message<'a> {
    Request {
        id: Id<'a>,
        method: Cow<'a, str>,
        params: Option<JsonValue<'a>>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<JsonValue<'a>>,
    },
    /// The answer to a request: a result or an error.
    Response {
        /// Absent in the error of a server that could not read the request's id.
        id: Option<Id<'a>>,
        result: Option<JsonValue<'a>>,
        error: Option<JsonValue<'a>>,
    },
}

/// A request's id as it was written: a JSON string or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id<'a>(pub &'a str);

/// The members of the envelope. `null` is a value that is there, but for a method's name.
#[derive(Default)]
struct Fields<'a> {
    jsonrpc: Option<JsonValue<'a>>,
    id: Option<JsonValue<'a>>,
    method: Option<JsonValue<'a>>,
    params: Option<JsonValue<'a>>,
    result: Option<JsonValue<'a>>,
    error: Option<JsonValue<'a>>,
}

impl<'a> Fields<'a> {
    fn of(message: JsonValue<'a>) -> Fields<'a> {
        let mut fields = Fields::default();
        for (key, value) in message.members() {
            let field = match &*key.name() {
                "jsonrpc" => &mut fields.jsonrpc,
                "id" => &mut fields.id,
                "method" => &mut fields.method,
                "params" => &mut fields.params,
                "result" => &mut fields.result,
                "error" => &mut fields.error,
                _ => continue,
            };
            *field = Some(value);
        }
        fields
    }
}

/// A text that may be a message, indexed once.
pub struct MessageText<'t>(Result<Json<'t>, Invalid>);

impl<'t> MessageText<'t> {
    /// Indexes a text.
    pub fn of(text: &'t [u8]) -> MessageText<'t> {
        MessageText(Json::read(text).map_err(|error| match error {
            JsonError::Syntax => Invalid::Json,
            JsonError::Deep => Invalid::Deep,
        }))
    }

    /// All of it.
    ///
    /// # Errors
    /// [`Invalid::Json`] and [`Invalid::Deep`].
    pub(crate) fn whole(&self) -> Result<JsonValue<'_>, Invalid> {
        self.0.as_ref().map(Json::root).map_err(|why| *why)
    }

    /// Reads the message, after checking the whole text.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn read(&self, sender: Sender) -> Result<Message<'_>, Invalid> {
        let (message, is_ambiguous) = self.read_arguments(sender)?;
        match is_ambiguous && sender == Sender::Agent {
            true => Err(Invalid::Folded),
            false => Ok(message),
        }
    }

    /// As [`MessageText::read`], and whether an object in its `arguments`, of which only the schema of a tool can
    /// say what they mean, has two members that are equal when their case is folded.
    pub(crate) fn read_arguments(&self, sender: Sender) -> Result<(Message<'_>, bool), Invalid> {
        let whole = self.whole()?;
        let folds = check::check(whole, sender)?;
        let is_read = |depth| match sender {
            Sender::Agent => true,
            // Of what servers send, weir reads the envelope and the members of the result.
            Sender::Server => depth <= 1,
        };
        if folds.depth.is_some_and(is_read) {
            return Err(Invalid::Folded);
        }
        match whole.kind() {
            JsonKind::Object => {}
            JsonKind::Array => return Err(Invalid::Batch),
            _ => return Err(Invalid::Message("a message is a JSON object")),
        }
        let message = Message::from_fields(Fields::of(whole), sender)?;
        Ok((message, folds.in_arguments))
    }
}

impl<'a> Message<'a> {
    fn from_fields(fields: Fields<'a>, sender: Sender) -> Result<Message<'a>, Invalid> {
        let version = fields.jsonrpc.and_then(JsonValue::as_str);
        if version.as_deref() != Some("2.0") {
            return Err(Invalid::Message("jsonrpc is missing or not \"2.0\""));
        }
        let method = match fields.method {
            Some(method) if method.kind() == JsonKind::Null => None,
            Some(method) => Some(
                method
                    .as_str()
                    .ok_or(Invalid::Message("method is a string"))?,
            ),
            None => None,
        };
        let params = fields.params;
        let holds =
            |params: JsonValue<'_>| matches!(params.kind(), JsonKind::Object | JsonKind::Array);
        if params.is_some_and(|params| !holds(params)) {
            return Err(Invalid::Message("params is neither an object nor an array"));
        }
        let answers = fields.result.is_some() || fields.error.is_some();
        // JSON-RPC 2.0, section 5: the id of an error is null where the request's could not be read.
        let unread = sender == Sender::Server && method.is_none() && fields.error.is_some();
        let id = match fields.id {
            Some(id) if unread && id.kind() == JsonKind::Null => None,
            id => id.map(Id::read).transpose()?,
        };
        match (method, id) {
            (Some(_), _) if answers => Err(Invalid::Message("both a method and an answer")),
            (None, _) if answers && params.is_some() => {
                Err(Invalid::Message("both params and an answer"))
            }
            (Some(method), Some(id)) => Ok(Message::Request { id, method, params }),
            (Some(method), None) => Ok(Message::Notification { method, params }),
            (None, id)
                if fields.result.is_some() != fields.error.is_some()
                    && (id.is_some() || unread) =>
            {
                Ok(Message::Response {
                    id,
                    result: fields.result,
                    error: fields.error,
                })
            }
            (None, None) if fields.error.is_some() => {
                Err(Invalid::Message("an error that answers no request"))
            }
            (None, _) => Err(Invalid::Message("neither a method nor an answer")),
        }
    }
}

/// Where `part`, which was read from `text` without a copy, stands in it.
pub(crate) fn span(text: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// The text with another part in place of one.
pub(crate) fn splice(text: &[u8], span: Range<usize>, with: &str) -> Bytes {
    [&text[..span.start], with.as_bytes(), &text[span.end..]]
        .concat()
        .into()
}

impl<'a> Id<'a> {
    fn read(value: JsonValue<'a>) -> Result<Id<'a>, Invalid> {
        match value.kind() {
            JsonKind::String | JsonKind::Number if value.span().len() <= 256 => {
                Ok(Id(value.text()))
            }
            _ => Err(Invalid::Message(
                "id is not a string or number of at most 256 characters",
            )),
        }
    }
}

/// What weir reads of a request's params. Absent fields are normal, and `null` is as one; other types are not.
#[derive(Default)]
pub struct Params<'a> {
    pub name: Option<Cow<'a, str>>,
    pub arguments: Option<JsonValue<'a>>,
    /// `_meta.progressToken`.
    pub progress: Option<JsonValue<'a>>,
    /// Of `notifications/progress`.
    pub progress_token: Option<JsonValue<'a>>,
    /// Of `notifications/cancelled`.
    pub request_id: Option<JsonValue<'a>>,
}

impl<'a> Params<'a> {
    pub fn read(params: Option<JsonValue<'a>>) -> Result<Params<'a>, Invalid> {
        let mut read = Params::default();
        let wrong = Invalid::Message("params has a field of another type than MCP's");
        let members = params.into_iter().flat_map(JsonValue::members);
        for (key, value) in members.filter(|(_, value)| value.kind() != JsonKind::Null) {
            match &*key.name() {
                "name" => read.name = Some(value.as_str().ok_or(wrong)?),
                "arguments" => read.arguments = Some(value),
                "_meta" if value.kind() != JsonKind::Object => return Err(wrong),
                "_meta" => {
                    let token = value.get("progressToken");
                    read.progress = token.filter(|token| token.kind() != JsonKind::Null);
                }
                "progressToken" => read.progress_token = Some(value),
                "requestId" => read.request_id = Some(value),
                _ => {}
            }
        }
        Ok(read)
    }
}

/// A JSON object as its fields in the order they came, to write it again with one of them changed.
#[derive(Default)]
pub struct Object<'a>(pub Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Object<'a> {
    pub fn read(text: &'a str) -> Option<Object<'a>> {
        serde_json::from_str(text).ok()
    }

    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| &**value)
    }

    /// The names of the fields.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Whether two names are equal when their case is folded.
    pub(crate) fn folds(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len());
        !self.keys().all(|name| seen.insert(fold::folded(name)))
    }

    /// Puts another value in the place of a field; the text must be JSON.
    pub fn set(&mut self, key: &str, json: String) -> Option<()> {
        let value = RawValue::from_string(json).ok()?;
        let field = self.0.iter_mut().find(|(name, _)| name == key)?;
        field.1 = Cow::Owned(value);
        Some(())
    }

    /// Puts a value in the place of a field, or after the others; the text must be JSON.
    pub(crate) fn put(&mut self, key: &str, json: String) -> Option<()> {
        if self.get(key).is_some() {
            return self.set(key, json);
        }
        let value = RawValue::from_string(json).ok()?;
        self.0.push((Cow::Owned(key.to_owned()), Cow::Owned(value)));
        Some(())
    }

    pub(crate) fn remove(&mut self, keys: &[&str]) {
        self.0.retain(|(name, _)| !keys.contains(&&**name));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("fields that were JSON stay JSON")
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, &**value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<'a>, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(FieldName(key)) = map.next_key()? {
                    fields.push((key, Cow::Borrowed(map.next_value::<&RawValue>()?)));
                }
                Ok(Object(fields))
            }
        }
        from.deserialize_map(Ordered)
    }
}

/// A field's name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use base::limit::{JSON_DEPTH_MAX, JSON_KEYS_MAX};

    use super::*;

    fn invalid(text: &str) -> Invalid {
        let read = MessageText::of(text.as_bytes());
        read.read(Sender::Agent).expect_err(text)
    }

    #[test]
    fn the_three_kinds() {
        let text =
            br#" {"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"x"}} "#;
        let text = MessageText::of(text);
        let Ok(Message::Request { id, method, params }) = text.read(Sender::Agent) else {
            panic!()
        };
        assert_eq!((id.0, &*method), (r#""a\"b""#, "tools/call"));
        assert_eq!(Params::read(params).unwrap().name.as_deref(), Some("x"));
        assert!(matches!(
            MessageText::of(br#"{"jsonrpc":"2.0","method":"ping"}"#).read(Sender::Agent),
            Ok(Message::Notification { .. })
        ));
        assert!(matches!(
            MessageText::of(br#"{"jsonrpc":"2.0","id":1,"result":null}"#).read(Sender::Agent),
            Ok(Message::Response {
                result: Some(_),
                error: None,
                ..
            })
        ));
    }

    #[test]
    fn what_is_not_a_message_says_why() {
        assert_eq!(invalid("{"), Invalid::Json);
        assert_eq!(invalid(""), Invalid::Json);
        assert_eq!(invalid("{} {}"), Invalid::Json);
        assert_eq!(invalid("\u{feff}{}"), Invalid::Json);
        assert_eq!(invalid("[]"), Invalid::Batch);
        assert!(matches!(invalid("7"), Invalid::Message(_)));
        for text in [
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","error":{}}"#,
        ] {
            assert!(matches!(invalid(text), Invalid::Message(_)), "{text}");
        }
    }

    /// A message whose params hold this.
    fn with(params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#)
    }

    #[test]
    fn a_key_twice_is_refused_at_any_depth_and_in_any_spelling() {
        assert_eq!(
            invalid(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#),
            Invalid::Duplicate
        );
        assert_eq!(
            invalid(&with(r#"{"a":[{"b":{"c":1,"\u0063":2}}]}"#)),
            Invalid::Duplicate
        );
        let many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":{i}")).collect();
        let once = with(&format!("{{{}}}", many.join(",")));
        assert!(MessageText::of(once.as_bytes()).read(Sender::Agent).is_ok());
        let twice = with(&format!("{{{},\"k3\":0}}", many.join(",")));
        assert_eq!(invalid(&twice), Invalid::Duplicate);
        let folded = with(&format!("{{{},\"K3\":0}}", many.join(",")));
        assert_eq!(invalid(&folded), Invalid::Folded);
    }

    #[test]
    fn what_other_parsers_read_otherwise_is_refused() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","Params":{}}"#,
            r#"{"jsonrpc":"2.0","ID":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","trace":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#,
        ] {
            assert!(matches!(invalid(text), Invalid::Message(_)), "{text}");
            let server = MessageText::of(text.as_bytes());
            let server = server.read(Sender::Server);
            assert!(matches!(server, Err(Invalid::Message(_))), "{text}");
        }
        for params in [
            r#"{"Name":"x"}"#,
            "{\"argument\u{17f}\":{}}",
            r#"{"\u0055ri":"x"}"#,
            r#"{"_Meta":{}}"#,
            r#"{"_meta":{"ProgressToken":1}}"#,
        ] {
            assert_eq!(invalid(&with(params)), Invalid::Spelling, "{params}");
        }
        for params in [
            r#"{"other":1,"Other":2}"#,
            r#"{"arguments":{"path":1,"Path":2}}"#,
            r#"{"arguments":{"a":{"b":[{"x":1,"X":2}]}}}"#,
        ] {
            assert_eq!(invalid(&with(params)), Invalid::Folded, "{params}");
        }
        let deep = with(r#"{"arguments":{"a":{"x":1,"X":2}}}"#);
        let deep = MessageText::of(deep.as_bytes());
        assert!(matches!(deep.read_arguments(Sender::Agent), Ok((_, true))));
    }

    #[test]
    fn a_servers_answer_is_read_as_far_as_it_is_given_a_meaning() {
        let read = |text: &'static str| {
            let text = MessageText::of(text.as_bytes());
            text.read(Sender::Server).map(|message| match message {
                Message::Response { id, .. } => id.is_some(),
                _ => panic!("no response"),
            })
        };
        let free = r#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"a":1,"A":2}}}"#;
        assert!(read(free).is_ok());
        let twice = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"Tools":[]}}"#;
        assert_eq!(read(twice).unwrap_err(), Invalid::Folded);
        for unread in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#,
        ] {
            assert_eq!(read(unread), Ok(false));
            assert!(matches!(invalid(unread), Invalid::Message(_)));
        }
        assert!(read(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#).is_err());
    }

    #[test]
    fn depth_and_keys_are_bounded() {
        let nested = |n: usize| with(&format!("{}1{}", "[".repeat(n), "]".repeat(n)));
        let read = |text: &str| {
            let text = MessageText::of(text.as_bytes());
            text.read(Sender::Agent).map(|_| ())
        };
        assert!(read(&nested(JSON_DEPTH_MAX - 1)).is_ok());
        assert_eq!(read(&nested(JSON_DEPTH_MAX)), Err(Invalid::Deep));
        let keys: Vec<String> = (0..=JSON_KEYS_MAX).map(|i| format!("\"{i}\":0")).collect();
        let wide = with(&format!("{{{}}}", keys.join(",")));
        assert_eq!(read(&wide), Err(Invalid::Deep));
    }

    #[test]
    fn a_part_is_found_where_it_stands_and_replaced() {
        let text = br#" {"jsonrpc":"2.0", "id" : "a\"b" ,"method":"ping"}"#;
        let indexed = MessageText::of(text);
        let Ok(Message::Request { id, .. }) = indexed.read(Sender::Agent) else {
            panic!()
        };
        let replaced = splice(text, span(text, id.0), "7");
        assert_eq!(replaced, r#" {"jsonrpc":"2.0", "id" : 7 ,"method":"ping"}"#);
    }

    #[test]
    fn an_object_is_written_again_as_it_was() {
        let text = r#"{"b":1.50,"a":{"x":"é\n"},"tools":[1, 2]}"#;
        let mut object = Object::read(text).unwrap();
        assert_eq!(object.to_json(), text);
        assert_eq!(object.set("tools", "[]".into()), Some(()));
        assert_eq!(object.to_json(), r#"{"b":1.50,"a":{"x":"é\n"},"tools":[]}"#);
        assert_eq!(object.set("none", "[]".into()), None);
    }
}

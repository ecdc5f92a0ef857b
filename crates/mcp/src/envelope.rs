//! Reads a JSON-RPC 2.0 message without copying it: what a judgement needs, and no more.
//!
//! The whole text is checked first: valid JSON, bounded depth, and no key twice in one object. Two readers
//! of a duplicated key may see two different values, so what was judged might not be what is carried out.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use base::limit::{JSON_DEPTH_MAX, JSON_KEYS_MAX};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a text is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    Json,
    Duplicate,
    Deep,
    Batch,
    /// JSON, but not JSON-RPC 2.0; the text says what is missing.
    Message(&'static str),
}

/// One message, by the fields that it has (JSON-RPC 2.0, sections 4 and 5).
#[derive(Clone, Debug)]
pub enum Message<'a> {
    Request {
        id: Id<'a>,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// The answer to a request: a result or an error.
    Response {
        id: Id<'a>,
        result: Option<&'a RawValue>,
        error: Option<&'a RawValue>,
    },
}

/// A request's id as it was written: a JSON string or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id<'a>(pub &'a str);

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// `null` is a value that is there, not one that is absent.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl<'a> Message<'a> {
    /// Reads one message, after checking the whole text.
    pub fn parse(text: &'a [u8]) -> Result<Message<'a>, Invalid> {
        check(text)?;
        match text.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{') => {}
            Some(b'[') => return Err(Invalid::Batch),
            _ => return Err(Invalid::Message("a message is a JSON object")),
        }
        let fields: Fields<'a> = serde_json::from_slice(text)
            .map_err(|_| Invalid::Message("jsonrpc and method are strings"))?;
        Message::from_fields(fields)
    }

    fn from_fields(fields: Fields<'a>) -> Result<Message<'a>, Invalid> {
        if fields.jsonrpc.as_deref() != Some("2.0") {
            return Err(Invalid::Message("jsonrpc is missing or not \"2.0\""));
        }
        let params = fields.params;
        if params.is_some_and(|p| !p.get().starts_with(['{', '['])) {
            return Err(Invalid::Message("params is neither an object nor an array"));
        }
        let id = fields.id.map(Id::read).transpose()?;
        let answers = fields.result.is_some() || fields.error.is_some();
        match (fields.method, id) {
            (Some(_), _) if answers => Err(Invalid::Message("both a method and an answer")),
            (Some(method), Some(id)) => Ok(Message::Request { id, method, params }),
            (Some(method), None) => Ok(Message::Notification { method, params }),
            (None, Some(id)) if fields.result.is_some() != fields.error.is_some() => {
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

impl<'a> Id<'a> {
    fn read(raw: &'a RawValue) -> Result<Id<'a>, Invalid> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9') if text.len() <= 256 => Ok(Id(text)),
            _ => Err(Invalid::Message(
                "id is not a string or number of at most 256 characters",
            )),
        }
    }
}

/// What weir reads of a request's params. Absent fields are normal; other types are not.
#[derive(Default, Deserialize)]
pub struct Params<'a> {
    #[serde(borrow, default)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta", default)]
    pub meta: Option<Meta<'a>>,
    /// Of `notifications/progress`.
    #[serde(borrow, rename = "progressToken", default)]
    pub progress_token: Option<&'a RawValue>,
    /// Of `notifications/cancelled`.
    #[serde(borrow, rename = "requestId", default)]
    pub request_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub struct Meta<'a> {
    #[serde(borrow, rename = "progressToken", default)]
    pub progress_token: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    pub fn read(params: Option<&'a RawValue>) -> Result<Params<'a>, Invalid> {
        match params {
            Some(raw) if raw.get().starts_with('{') => serde_json::from_str(raw.get())
                .map_err(|_| Invalid::Message("params has a field of another type than MCP's")),
            _ => Ok(Params::default()),
        }
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

    /// Puts another value in the place of a field; the text must be JSON.
    pub fn set(&mut self, key: &str, json: String) -> Option<()> {
        let value = RawValue::from_string(json).ok()?;
        let field = self.0.iter_mut().find(|(name, _)| name == key)?;
        field.1 = Cow::Owned(value);
        Some(())
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
                while let Some(Key(key)) = map.next_key()? {
                    fields.push((key, Cow::Borrowed(map.next_value::<&RawValue>()?)));
                }
                Ok(Object(fields))
            }
        }
        from.deserialize_map(Ordered)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Checks a whole JSON text: valid, at most [`JSON_DEPTH_MAX`] deep, no key twice in one object.
pub fn check(text: &[u8]) -> Result<(), Invalid> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(text);
    let strict = Strict {
        depth: 0,
        found: &mut found,
    };
    let read = strict.deserialize(&mut reader).and_then(|()| reader.end());
    match (read, found) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(invalid)) => Err(invalid),
        (Err(_), None) => Err(Invalid::Json),
    }
}

/// Walks a value and keeps nothing but the keys of the objects that it is inside of.
struct Strict<'f> {
    depth: usize,
    found: &'f mut Option<Invalid>,
}

impl Strict<'_> {
    fn fail<E: serde::de::Error>(self, invalid: Invalid) -> E {
        *self.found = Some(invalid);
        E::custom("refused")
    }

    fn inner(&mut self) -> Strict<'_> {
        Strict {
            depth: self.depth + 1,
            found: self.found,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.depth > JSON_DEPTH_MAX {
            return Err(self.fail(Invalid::Deep));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self.inner())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut keys = Keys::default();
        while let Some(Key(key)) = map.next_key()? {
            match keys.insert(key) {
                Ok(()) => map.next_value_seed(self.inner())?,
                Err(invalid) => return Err(self.fail(invalid)),
            }
        }
        Ok(())
    }
}

/// The keys of one object: compared one by one while few, hashed when many.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    const FEW: usize = 16;

    fn insert(&mut self, key: Cow<'a, str>) -> Result<(), Invalid> {
        if self.many.is_empty() && self.few.len() < Keys::FEW {
            if self.few.contains(&key) {
                return Err(Invalid::Duplicate);
            }
            self.few.push(key);
            return Ok(());
        }
        self.many.extend(self.few.drain(..));
        match (self.many.len() < JSON_KEYS_MAX, self.many.insert(key)) {
            (_, false) => Err(Invalid::Duplicate),
            (false, true) => Err(Invalid::Deep),
            (true, true) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalid(text: &str) -> Invalid {
        Message::parse(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn the_three_kinds() {
        let text =
            br#" {"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"x"}} "#;
        let Ok(Message::Request { id, method, params }) = Message::parse(text) else {
            panic!()
        };
        assert_eq!((id.0, &*method), (r#""a\"b""#, "tools/call"));
        assert_eq!(Params::read(params).unwrap().name.as_deref(), Some("x"));
        assert!(matches!(
            Message::parse(br#"{"jsonrpc":"2.0","method":"ping"}"#),
            Ok(Message::Notification { .. })
        ));
        assert!(matches!(
            Message::parse(br#"{"jsonrpc":"2.0","id":1,"result":null}"#),
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

    #[test]
    fn a_key_twice_is_refused_at_any_depth_and_in_any_spelling() {
        assert_eq!(
            invalid(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#),
            Invalid::Duplicate
        );
        assert_eq!(
            invalid(r#"{"a":[{"b":{"c":1,"\u0063":2}}]}"#),
            Invalid::Duplicate
        );
        let many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":{i}")).collect();
        assert!(check(format!("{{{}}}", many.join(",")).as_bytes()).is_ok());
        let twice = format!("{{{},\"k3\":0}}", many.join(","));
        assert_eq!(check(twice.as_bytes()), Err(Invalid::Duplicate));
    }

    #[test]
    fn depth_and_keys_are_bounded() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(check(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(
            check(nested(JSON_DEPTH_MAX + 1).as_bytes()),
            Err(Invalid::Deep)
        );
        let keys: Vec<String> = (0..=JSON_KEYS_MAX).map(|i| format!("\"{i}\":0")).collect();
        assert_eq!(
            check(format!("{{{}}}", keys.join(",")).as_bytes()),
            Err(Invalid::Deep)
        );
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

//! Entrances for the fuzzer to parsers that nothing outside this crate calls.

use base::{Json, Name};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::batch;
use crate::declared::Declared;
use crate::envelope::{Message, MessageText, Sender};
use crate::era::fields::{self, GivenParam};
use crate::era::{MessageEra, params};
use crate::origin;
use crate::token::Tokens;

fn name() -> Name {
    Name::new("fuzz").expect("fuzz is a name")
}

/// Whether arguments may go to a tool that has this `inputSchema`; `folds` as the envelope's check says it.
pub fn arguments(schema: &str, arguments: &str, folds: bool) -> bool {
    let declared = Declared::default();
    declared.see(&name(), "tool", schema);
    let Ok(arguments) = Json::read(arguments.as_bytes()) else {
        return false;
    };
    let arguments = Some(arguments.root());
    declared.check(&name(), "tool", arguments, folds).is_ok()
}

/// Whether a text is a serialised origin.
pub fn is_origin(text: &str) -> bool {
    origin::is_origin(text)
}

/// Reads a message as one of an era; `head` holds a field in each line. What passes as modern is of one opinion with its fields.
pub fn era(head: &str, body: &[u8]) {
    let mut fields = HeaderMap::new();
    for line in head.lines() {
        let field = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            Some((name, HeaderValue::try_from(value.trim()).ok()?))
        });
        if let Some((name, value)) = field {
            fields.append(name, value);
        }
    }
    let text = MessageText::of(body);
    let Ok(message) = text.read(Sender::Agent) else {
        return;
    };
    let _ = MessageEra::read(None, &message);
    let Ok(MessageEra::Modern(modern)) = MessageEra::read(Some(&fields), &message) else {
        return;
    };
    let named = fields::revision(&fields).expect("it was read once");
    assert_eq!(named, Some(modern.revision.date), "two revisions passed");
    if let Message::Request { method, .. } = &message {
        assert_eq!(fields["mcp-method"].as_bytes(), method.as_bytes());
    }
}

/// The fields made for a call say what its arguments say, by whatever schema.
pub fn params(schema: &str, arguments: &str) {
    let (Ok(schema), Ok(arguments)) = (
        serde_json::from_str::<serde_json::Value>(schema),
        Json::read(arguments.as_bytes()),
    ) else {
        return;
    };
    let Ok(known) = params::of_schema(&schema) else {
        return;
    };
    let arguments = Some(arguments.root());
    let made = params::make(&known, arguments).fields;
    let given = made.iter().map(|(name, value)| GivenParam {
        name: name.clone(),
        text: fields::decoded(value)
            .expect("what was encoded is decoded")
            .into_owned(),
    });
    let given: Vec<GivenParam> = given.collect();
    assert!(
        params::check(&known, &given, arguments).is_ok(),
        "fields that were made are refused"
    );
}

/// A batch is its messages; what a server says is at least one.
pub fn batch(body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    if let Ok(Some(messages)) = batch::of_client(&body) {
        assert!((1..=50).contains(&messages.len()));
        assert!(messages.iter().all(|message| Json::read(message).is_ok()));
    }
    assert!(!batch::of_server(&body).is_empty());
}

/// Whether a text opens as a session's or an event's token.
pub fn is_token(text: &str) -> bool {
    let tokens = Tokens {
        key: &[7; 32],
        agent: &name(),
        server: &name(),
    };
    let is_state = tokens.open_state("tools/call", text).is_some();
    let is_parked = tokens.open_parked(text).is_some();
    tokens.open_session(text).is_some()
        || tokens.open_event(text).is_some()
        || is_state
        || is_parked
}

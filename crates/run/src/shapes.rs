//! The words of clients that others wrote: what they ask becomes a start, and events become what they read.
//!
//! None of it decides anything: a run that was started in one shape can be read in every other.

pub(crate) mod a2a;
pub(crate) mod agui;
pub(crate) mod chat;
pub(crate) mod responses;

use base::Refusal;
use serde_json::{Map, Value};

use crate::body::invalid;

/// Members of an object that a client sends without meaning anything by them.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A JSON object, without the members that say nothing.
fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let read: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body: {error}")))?;
    let said = read.into_iter().filter(|(_, value)| !is_nothing(value));
    Ok(said.collect())
}

/// The text of a message's content: a text, or parts that are texts.
fn text_of(content: Option<Value>, kinds: &[&str]) -> Result<String, Refusal> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::String(text)) => return Ok(text),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err(invalid("content is a text, or a list of parts")),
    };
    let mut texts = String::new();
    for part in &parts {
        let kind = part["type"].as_str().unwrap_or_default();
        match part["text"].as_str().filter(|_| kinds.contains(&kind)) {
            Some(text) => texts.push_str(text),
            None => {
                let kind: String = kind.chars().take(64).collect();
                return Err(invalid(format!(
                    "a run takes texts, and no content of the type {kind:?}"
                )));
            }
        }
    }
    Ok(texts)
}

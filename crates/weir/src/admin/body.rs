//! Bodies of the admin API: JSON that says that it is JSON, with the members that its action knows and no other.
//!
//! A member that is misspelt would be left out in silence: an invite for a year where an hour was meant.

use base::{Refusal, near, refusal};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use net::Request;
use serde_json::{Map, Value};

/// Characters of a member's name that are told.
const TOLD_CHARS: usize = 64;

/// The bytes of a body that says that it is JSON; none where there is no body.
///
/// # Errors
/// `http.content_type`, and those of reading it.
pub(crate) async fn json_bytes(request: &mut Request) -> Result<Bytes, Refusal> {
    let body = request.body().await?;
    match body.is_empty() || is_json(request) {
        true => Ok(body),
        false => {
            let public = "the body does not say that it is application/json";
            Err(Refusal::new(refusal::CONTENT_TYPE, public))
        }
    }
}

/// A body that is an object with these members at most. Where it may be left out, none is an empty object.
///
/// # Errors
/// `http.content_type`, `identity.invalid`, and those of reading it.
pub(crate) async fn json_object(request: &mut Request, members: &[&str]) -> Result<Value, Refusal> {
    let invalid = |public: String| Refusal::new(refusal::IDENTITY_INVALID, public);
    let body = json_bytes(request).await?;
    if body.is_empty() && members.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let read = identity::jose::strict_object(&body).map(drop).ok();
    let value = read.and_then(|()| serde_json::from_slice::<Map<String, Value>>(&body).ok());
    let value = value.ok_or_else(|| invalid("the body is no JSON object".to_owned()))?;
    match value.keys().find(|name| !members.contains(&name.as_str())) {
        None => Ok(Value::Object(value)),
        Some(name) => Err(invalid(unknown(name, members))),
    }
}

fn unknown(name: &str, members: &[&str]) -> String {
    let told: String = name.chars().take(TOLD_CHARS).collect();
    let told = match base::secret::holds_own(name) {
        true => "a member that has the form of a key".to_owned(),
        false => format!("the member {told:?}"),
    };
    match (near::meant(name, members.iter().copied()), members) {
        (Some(meant), _) => format!("{told} is not known here; was {meant} meant?"),
        (None, []) => format!("{told} is not known here: this takes no body"),
        (None, members) => format!("{told} is not known here; there are {}", members.join(", ")),
    }
}

/// Whether the one Content-Type says JSON (RFC 9110 §8.3), whatever its parameters.
fn is_json(request: &Request) -> bool {
    let mut said = request.head.headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (said.next(), said.next()) else {
        return false;
    };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

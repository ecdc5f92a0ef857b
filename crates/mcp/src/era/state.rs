//! The `requestState` by which a server of 2026-07-28 knows a request again that it asked something about.
//!
//! What the server wrote there is sealed before the agent is given it, for the agent, the server and the method: no other
//! agent can present it, nobody can alter it, and nothing goes out or comes in by it that the scan has not seen. Example: of
//! `{"resultType":"input_required","requestState":"step 2",…}` the agent gets `"requestState":"kA7…"`, and where it asks again
//! with that, the server gets `step 2`.
//!
//! Source: MCP 2026-07-28, "Multi Round-Trip Requests".

use base::{Json, JsonValue, Refusal, refusal};
use bytes::Bytes;

use super::{Era, MessageEra};
use crate::envelope::{Message, splice};
use crate::token::Tokens;

const STATE: &str = "requestState";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The state that a request brings back, while the request is judged.
pub(crate) struct HeldState {
    /// The message with an empty state.
    pub(crate) without: Bytes,
    /// What the server wrote, as JSON.
    state: String,
}

/// The methods to which a server may answer with questions.
pub(crate) fn may_ask(method: &str) -> Option<&'static str> {
    let those = ["tools/call", "prompts/get", "resources/read"];
    those.into_iter().find(|known| *known == method)
}

impl HeldState {
    /// Takes the state out of a request that has one.
    ///
    /// # Errors
    /// `mcp.state_invalid` where it was not sealed for this agent, server and method.
    pub(crate) fn take(
        era: &MessageEra,
        message: &Message<'_>,
        body: &Bytes,
        tokens: Tokens<'_>,
    ) -> Result<Option<HeldState>, Refusal> {
        let Message::Request { method, params, .. } = message else {
            return Ok(None);
        };
        let (Era::Modern, Some(method)) = (era.era(), may_ask(method)) else {
            return Ok(None);
        };
        let Some(given) = params.and_then(|params| params.get(STATE)) else {
            return Ok(None);
        };
        let opened = given
            .as_str()
            .and_then(|given| tokens.open_state(method, &given));
        let opened = opened.ok_or_else(|| {
            let public = "requestState is not one that this request was given";
            Refusal::new(refusal::STATE_INVALID, public)
        })?;
        Ok(Some(HeldState {
            without: splice(body, given.span(), "\"\""),
            state: serde_json::Value::from(opened).to_string(),
        }))
    }

    /// The message with the server's state, for the server.
    pub(crate) fn put_back(&self, message: &Bytes) -> Bytes {
        in_member(message, "params", &self.state)
    }
}

/// An answer that asks, without its state: the text to be judged, and the state.
pub(crate) fn without_state(answer: &Bytes, result: JsonValue<'_>) -> Option<(Bytes, String)> {
    let state = result.get(STATE)?;
    let said = state.as_str()?.into_owned();
    Some((splice(answer, state.span(), "\"\""), said))
}

/// An answer that was judged without its state, with the sealed one.
pub(crate) fn with_state(answer: &Bytes, sealed: &str) -> Bytes {
    in_member(answer, "result", &format!("\"{sealed}\""))
}

/// A message that says which subscription it is of, with another id of it in the place of `own`.
pub(crate) fn with_subscription(message: &Bytes, own: &str, client: &str) -> Bytes {
    let put = || {
        let json = Json::read(message).ok()?;
        let root = json.root();
        let body = root.get("params").or_else(|| root.get("result"))?;
        let id = body.get("_meta")?.get(SUBSCRIPTION)?;
        (id.text() == own).then(|| splice(message, id.span(), client))
    };
    put().unwrap_or_else(|| message.clone())
}

/// The id of the subscription that a message with these params is of, as it was written.
pub(crate) fn subscription(params: JsonValue<'_>) -> Option<&str> {
    let id = params.get("_meta")?.get(SUBSCRIPTION)?;
    Some(id.text())
}

/// Puts another JSON value in the place of the state in a member of the message.
fn in_member(message: &Bytes, member: &str, with: &str) -> Bytes {
    let put = || {
        let json = Json::read(message).ok()?;
        let state = json.root().get(member)?.get(STATE)?;
        Some(splice(message, state.span(), with))
    };
    put().unwrap_or_else(|| message.clone())
}

//! A request that passed, on its way to its agent; and which way its answer comes back.

use base::record::CallEnd;
use base::{JsonValue, Permit as _, Refusal, Secret, refusal};
use bytes::Bytes;
use gate::{CallEnding, Passed};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use net::{Response, SendError, UpstreamAnswer};

use crate::lane::{A2aLane, RemoteAgent};
use crate::method::Method;
use crate::{answer, refuse, stream};

/// A request, as it goes to its agent.
pub(crate) struct Asking<'r> {
    pub(crate) agent: &'r RemoteAgent,
    /// The request's id, as it is written.
    pub(crate) id: &'r str,
    pub(crate) method: &'static Method,
    pub(crate) body: Bytes,
    pub(crate) fields: Vec<(&'static str, HeaderValue)>,
}

/// Sends it, and answers its client.
pub(crate) async fn carry(lane: &A2aLane, passed: Passed, asking: Asking<'_>) -> Response {
    let call = passed.call();
    let answer = match send(lane, &passed, &asking).await {
        Ok(answer) => answer,
        Err((status, refusal)) => {
            passed.end(CallEnding {
                status,
                why: Some((refusal.code.name, &refusal.private)),
                ..CallEnding::of(CallEnd::Failed)
            });
            return refuse::respond(&refusal, call, Some(asking.id), asking.method.version);
        }
    };
    let kind = answer.head.headers.get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    match is_stream {
        true => stream::carry(lane, passed, &asking, answer),
        false => answer::whole(lane, passed, &asking, answer).await,
    }
}

/// The head of the agent's answer, where it can be one of A2A; else the status that came and the refusal.
async fn send(
    lane: &A2aLane,
    passed: &Passed,
    asking: &Asking<'_>,
) -> Result<UpstreamAnswer, (u16, Refusal)> {
    let mut request = http::Request::new(asking.body.clone());
    *request.method_mut() = http::Method::POST;
    let fields = request.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = "application/json, text/event-stream";
    fields.insert(ACCEPT, HeaderValue::from_static(accept));
    for (name, value) in &asking.fields {
        fields.insert(HeaderName::from_static(name), value.clone());
    }
    authorize(asking.agent, fields).map_err(|refusal| (0, refusal))?;
    let sent = lane.upstreams.send(passed, request, asking.agent.answer_ms);
    let answer = sent.await.map_err(|error| (0, of_send(error)))?;
    let status = answer.head.status;
    let is_coded = |coding: &HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"identity");
    let mut codings = answer.head.headers.get_all(CONTENT_ENCODING).iter();
    if codings.any(is_coded) {
        let what = "the agent's answer is compressed, which was not asked for";
        let refusal = Refusal::new(refusal::A2A_ANSWER_INVALID, what);
        return Err((status.as_u16(), refusal));
    }
    // Whoever is not let in there can do nothing about it: weir's own token is wrong.
    if !status.is_success() {
        let what = format!("the agent answered with HTTP status {}", status.as_u16());
        return Err((status.as_u16(), Refusal::new(refusal::A2A_DOWN, what)));
    }
    Ok(answer)
}

/// Shows the agent weir's token.
pub(crate) fn authorize(agent: &RemoteAgent, fields: &mut HeaderMap) -> Result<(), Refusal> {
    let Some(token) = &agent.token else {
        return Ok(());
    };
    let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
    let mut value = value.map_err(|_| {
        let what = "the agent's token cannot be written into a field";
        Refusal::new(refusal::FAILED, what)
    })?;
    value.set_sensitive(true);
    fields.insert(AUTHORIZATION, value);
    Ok(())
}

/// Whether weir's token stands in what the agent said, in a text or in a name.
pub(crate) fn has_token(agent: &RemoteAgent, said: JsonValue<'_>) -> bool {
    let Some(token) = agent.token.as_ref().map(Secret::expose) else {
        return false;
    };
    !token.is_empty() && has_text(said, token)
}

fn has_text(value: JsonValue<'_>, text: &str) -> bool {
    let mut members = value.members();
    value.as_str().is_some_and(|said| said.contains(text))
        || members.any(|(key, member)| key.name().contains(text) || has_text(member, text))
        || value.items().any(|item| has_text(item, text))
}

/// Why there is no answer, in the words of this lane.
pub(crate) fn of_send(error: SendError) -> Refusal {
    match error {
        SendError::Refused(refusal) => refusal,
        SendError::Slow => Refusal::new(refusal::A2A_SLOW, "the agent did not answer in time"),
        SendError::TooLarge => Refusal::new(
            refusal::A2A_ANSWER_INVALID,
            "the agent's answer is larger than limits.answer_bytes_max",
        ),
        error => Refusal::new(
            refusal::A2A_DOWN,
            "the agent cannot be reached or broke off",
        )
        .with_private(error.to_string()),
    }
}

//! How an agent's budgets stand, and what it used: weir answers the holder of a key itself, at `GET /v1/usage`.

use base::record::CallEnd;
use base::{Name, Resource};
use bytes::Bytes;
use gate::{Call, CallEnding};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use net::{Body, Response};
use serde_json::Value;

use crate::actions::LIST;
use crate::lane::{KnownRequest, LlmLane};
use crate::refuse;

/// Whoever keeps account says how an agent of these groups stands.
pub trait UsageOf: Send + Sync {
    /// An object with the agent's budgets and what it used today and in this month.
    fn usage_of(&self, agent: &Name, groups: &[Name]) -> Value;
}

/// Answers `GET /v1/usage`.
pub(crate) async fn serve(lane: &LlmLane, known: KnownRequest<'_>) -> Response {
    let resource = Resource::Setting(Name::new("usage").expect("usage is a name"));
    let call = Call {
        action: &LIST,
        method: "usage",
        resource: &resource,
        ..known.call
    };
    let (id, family) = (call.id, known.family);
    let agent = std::sync::Arc::clone(known.verified.agent());
    let passed = match lane.shared.gate.pass(known.verified, call).await {
        Ok(passed) => passed,
        Err(refusal) => return refuse::respond(family, &refusal, id),
    };
    let usage = lane.settings().usage.usage_of(&agent.name, &agent.groups);
    let text = usage.to_string();
    passed.end(CallEnding {
        status: 200,
        bytes: text.len() as u64,
        ..CallEnding::of(CallEnd::Complete)
    });
    let mut response = Response::new(Body::Full(Bytes::from(text)));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

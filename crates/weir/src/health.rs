//! `/health`, `/health/live`, `/health/ready`: whether the process runs, and whether it does its work.
//!
//! Honest: ready means that calls can pass and be recorded. A server that does not work is named, and
//! does not take the others away; where none works, nothing can be called and the gateway is not ready.
//!
//! Everyone is told one word. Which servers there are, what is wrong with them, and which version this is,
//! is told to this machine alone.

use crate::assemble::relay::Sides;
use bytes::Bytes;
use http::StatusCode;
use net::{Body, Drain, Response};
use serde_json::{Map, Value, json};

/// What readiness is read from.
pub(crate) struct Health<'a> {
    pub gate: &'a gate::Gate,
    pub mcp: &'a mcp::Shared,
    pub drain: &'a Drain,
    pub relay: &'a Sides,
}

/// The process runs. Says nothing else, and costs nothing.
pub(crate) fn live() -> Response {
    let mut response = Response::new(Body::Full(Bytes::from_static(b"{\"status\":\"live\"}")));
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, crate::routes::JSON);
    response
}

impl Health<'_> {
    /// 200 where calls can pass, else 503; `near` also says what is wrong.
    pub(crate) fn ready(&self, near: bool) -> Response {
        let trouble = self.gate.log_trouble();
        let log = match &trouble {
            None => "works",
            Some(gate::ports::RecordError::Full) => "full",
            Some(gate::ports::RecordError::Busy) => "busy",
            Some(gate::ports::RecordError::Failed(_)) => "failed",
        };
        let policies = self.gate.rules().policies.len();
        let mut servers = Map::new();
        let mut down = 0;
        for (name, health) in self.mcp.health() {
            down += usize::from(health.is_err());
            let word = if health.is_ok() { "works" } else { "down" };
            servers.insert(name.as_str().to_owned(), word.into());
        }
        let none_works = !servers.is_empty() && down == servers.len();
        let sides = self.relay.now();
        // An outbound without its peer still passes on what goes elsewhere; an inbound lets nothing through yet.
        let waits = |name| sides.iter().any(|side| side.name == name && !side.is_ready);
        let status = match () {
            () if self.drain.is_started() => "draining",
            () if log != "works" || policies == 0 || none_works || waits("inbound") => "not ready",
            () if down > 0 || waits("outbound") => "degraded",
            () => "ready",
        };
        let mut body = json!({ "status": status });
        if near {
            body["log"] = log.into();
            body["policies"] = policies.into();
            body["servers"] = Value::Object(servers);
            body["version"] = env!("CARGO_PKG_VERSION").into();
        }
        if let Some(gate::ports::RecordError::Failed(why)) = trouble
            && near
        {
            body["log_failed"] = why.into();
        }
        if near && !sides.is_empty() {
            let word = |ready| if ready { "ready" } else { "not ready" };
            let sides = sides
                .iter()
                .map(|side| (side.name.to_owned(), word(side.is_ready).into()));
            body["relay"] = Value::Object(sides.collect());
        }
        let mut response = crate::routes::json_response(&body);
        if matches!(status, "draining" | "not ready") {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }
}

//! `/health`, `/health/live`, `/health/ready`: whether the process runs, and whether it does its work.
//!
//! Honest: ready means that calls can pass and be recorded. Each lane says how it is, and the gateway is as ready as
//! the least ready of them.
//!
//! Everyone is told one word. What there is, what is wrong with it, and which version this is, is told to this machine
//! alone.

use bytes::Bytes;
use gate::Gate;
use gate::ports::RecordError;
use http::StatusCode;
use net::{Body, Drain, Response};
use serde_json::{Map, Value, json};

/// How one lane is.
pub(crate) struct LaneHealth {
    /// What its parts are called together, such as `servers`.
    pub title: &'static str,
    /// Each part by name, and one word for how it is.
    pub parts: Vec<(String, &'static str)>,
    pub known: Option<KnownOfParts>,
    pub readiness: Readiness,
}

/// What else is known of the parts of a lane.
pub(crate) struct KnownOfParts {
    /// How that is called, such as `revisions`.
    pub title: &'static str,
    pub words: Vec<(String, Vec<&'static str>)>,
}

/// Whether work can be done; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readiness {
    Ready,
    /// Some of it.
    Degraded,
    /// None yet; what was started has not answered.
    Starting,
    NotReady,
}

impl Readiness {
    fn as_str(self) -> &'static str {
        match self {
            Readiness::Ready => "ready",
            Readiness::Degraded => "degraded",
            Readiness::Starting => "starting",
            Readiness::NotReady => "not ready",
        }
    }
}

/// What readiness is read from.
pub(crate) struct Health<'a> {
    pub gate: &'a Gate,
    pub drain: &'a Drain,
    pub lanes: Vec<LaneHealth>,
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
        let policies = self.gate.rules().policies.len();
        let own = match trouble.is_some() || policies == 0 {
            true => Readiness::NotReady,
            false => Readiness::Ready,
        };
        let lanes = self.lanes.iter().map(|lane| lane.readiness);
        let readiness = lanes.fold(own, Readiness::max);
        let is_draining = self.drain.is_started();
        let status = match is_draining {
            true => "draining",
            false => readiness.as_str(),
        };
        let mut body = json!({ "status": status });
        if near {
            body["log"] = log_word(trouble.as_ref()).into();
            body["policies"] = policies.into();
            body["version"] = env!("CARGO_PKG_VERSION").into();
            for lane in &self.lanes {
                let parts = lane.parts.iter();
                let parts = parts.map(|(name, word)| (name.clone(), Value::from(*word)));
                body[lane.title] = Value::Object(parts.collect::<Map<_, _>>());
                if let Some(known) = &lane.known {
                    let words = known.words.iter();
                    let words = words.map(|(name, words)| (name.clone(), Value::from(&**words)));
                    body[known.title] = Value::Object(words.collect::<Map<_, _>>());
                }
            }
        }
        if let Some(RecordError::Failed(why)) = trouble
            && near
        {
            body["log_failed"] = why.into();
        }
        let mut response = crate::routes::json_response(&body);
        if is_draining || readiness >= Readiness::Starting {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }
}

fn log_word(trouble: Option<&RecordError>) -> &'static str {
    match trouble {
        None => "works",
        Some(RecordError::Full) => "full",
        Some(RecordError::Busy) => "busy",
        Some(RecordError::Failed(_)) => "failed",
    }
}

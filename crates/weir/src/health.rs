//! `/health`, `/health/live`, `/health/ready`: whether the process runs, and whether it does its work.
//!
//! Honest: ready means that calls can pass and be recorded. Each lane says how it is, and the gateway is as ready as
//! the least ready of them.
//!
//! Everyone is told one word. What there is, what is wrong with it, and which version this is, is told to this machine
//! alone.

use std::sync::Arc;

use bytes::Bytes;
use gate::Gate;
use gate::ports::RecordError;
use http::StatusCode;
use net::{Body, Drain, Response};
use serde_json::{Map, Value, json};
use store::replica::{StoreStanding, StoreTrouble};

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
    /// Of a replica: how it stands with the store.
    pub replica: Option<ReplicaHealth>,
}

/// How a replica stands with the store that it shares.
pub(crate) struct ReplicaHealth {
    pub name: String,
    /// Entries of its log that are not in the store yet.
    pub behind: u64,
    pub standing: Arc<StoreStanding>,
}

impl ReplicaHealth {
    /// Late is where nothing was heard for some seconds: calls go on, and are refused after `store.outage_max`.
    fn word(&self) -> (&'static str, Readiness) {
        let late = LATE_MS..;
        match self.standing.trouble() {
            Some(StoreTrouble::Alarm(_)) => ("not what this replica wrote", Readiness::NotReady),
            Some(StoreTrouble::Away) => ("away", Readiness::NotReady),
            Some(StoreTrouble::Behind) => ("behind", Readiness::NotReady),
            None if late.contains(&self.standing.silent_ms()) => (
                "away; calls go on until store.outage_max",
                Readiness::Degraded,
            ),
            None if late.contains(&self.standing.stuck_ms()) => (
                "behind; calls go on until store.outage_max",
                Readiness::Degraded,
            ),
            None => ("works", Readiness::Ready),
        }
    }

    fn told(&self) -> Value {
        let standing = &self.standing;
        json!({
            "replica": self.name,
            "status": self.word().0,
            "behind": self.behind,
            "silent_ms": standing.silent_ms(),
            "stuck_ms": standing.stuck_ms(),
            "clock_ahead_ms": standing.clock_ahead_ms(),
            "why": standing.why(),
        })
    }
}

/// After how long without a word, or without progress, that is told, in milliseconds.
const LATE_MS: u64 = 3_000;

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
        let own = self
            .replica
            .as_ref()
            .map_or(own, |replica| own.max(replica.word().1));
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
            if let Some(replica) = &self.replica {
                body["store"] = replica.told();
            }
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
        Some(RecordError::Away) => "works, and the store is away",
        Some(RecordError::Behind) => "works, and does not reach the store",
    }
}

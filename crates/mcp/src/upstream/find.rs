//! The revisions that a server speaks, and over which transport: found by asking it, and kept.
//!
//! A server is asked `server/discover` first, as a client of 2026-07-28 asks it, and then `initialize`. One over HTTP that knows
//! neither is asked for the event stream of 2024-11-05. Nothing else tells the eras apart: servers of the older one answer
//! an unknown method by many codes, or not at all.
//!
//! Source: MCP 2026-07-28, "Versioning".

mod child;
pub(super) mod http;

use std::sync::Arc;

use base::Secret;
use gate::Passed;
use serde_json::Value;

use crate::era::{CapabilitySet, Era, Revision};
use crate::lane::{McpLane, Server, ServerKind};
use crate::probe::ServerState;

/// What a server of the modern era says of a revision that it does not speak.
const REVISION_UNKNOWN: i64 = -32022;
/// What only a server of the modern era says: a header that is not the body's, and a capability that is missing.
const MODERN_ERRORS: [i64; 2] = [-32020, -32021];
/// Revisions that are read of a server's list.
const LISTED_MAX: usize = 32;

/// What a server speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    /// Revisions that need no session, the oldest first.
    pub(crate) modern: Vec<&'static Revision>,
    /// The revision that it chose when it was asked to begin a session.
    pub(crate) legacy: Option<&'static Revision>,
    pub(crate) transport: Transport,
}

/// How messages reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// HTTP, each message a POST.
    Streamable,
    /// HTTP+SSE of 2024-11-05: one event stream, and POSTs to a place that it names.
    Events,
    Stdio,
}

impl Spoken {
    pub(crate) fn speaks(&self, era: Era) -> bool {
        match era {
            Era::Legacy => self.legacy.is_some(),
            Era::Modern => !self.modern.is_empty(),
        }
    }

    /// The dates of what it speaks, the oldest first.
    pub(crate) fn dates(&self) -> impl Iterator<Item = &'static str> {
        let all = self.legacy.iter().chain(&self.modern);
        all.map(|revision| revision.date)
    }
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EraState {
    Unknown,
    /// It is asked; what it spoke before is used until it has answered.
    Asking(Option<Arc<Spoken>>),
    Known(Arc<Spoken>),
    /// It said something that does not fit with what it spoke, which is used until it was asked again.
    Doubted(Arc<Spoken>),
    Down {
        why: String,
        last: Option<Arc<Spoken>>,
    },
}

/// What happens to the knowledge of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EraEvent {
    Asked,
    Found(Arc<Spoken>),
    Failed(String),
    Doubt,
}

impl EraState {
    pub(crate) fn after(self, event: EraEvent) -> EraState {
        match (self, event) {
            (_, EraEvent::Found(spoken)) => EraState::Known(spoken),
            (state, EraEvent::Failed(why)) => EraState::Down {
                why,
                last: state.spoken().cloned(),
            },
            (EraState::Known(spoken), EraEvent::Doubt) => EraState::Doubted(spoken),
            (EraState::Unknown, EraEvent::Asked) => EraState::Asking(None),
            (EraState::Doubted(spoken), EraEvent::Asked) => EraState::Asking(Some(spoken)),
            // A server that is down stays so until it has answered.
            (state, EraEvent::Asked | EraEvent::Doubt) => state,
        }
    }

    pub(crate) fn spoken(&self) -> Option<&Arc<Spoken>> {
        match self {
            EraState::Unknown => None,
            EraState::Known(spoken) | EraState::Doubted(spoken) => Some(spoken),
            EraState::Asking(last) | EraState::Down { last, .. } => last.as_ref(),
        }
    }

    /// How the server is, as last seen. One that was asked and has not answered yet is starting: it is down once it was seen
    /// to fail, and stays so until it has answered.
    pub(crate) fn server(&self) -> ServerState {
        match self {
            EraState::Known(_) | EraState::Doubted(_) | EraState::Asking(Some(_)) => {
                ServerState::Works
            }
            EraState::Unknown | EraState::Asking(None) => ServerState::Starting,
            EraState::Down { why, .. } => ServerState::Down(why.clone()),
        }
    }

    /// Whether the next probe has to find out what the server speaks.
    pub(crate) fn is_to_be_found(&self) -> bool {
        !matches!(self, EraState::Known(_))
    }
}

/// Asks a server what it speaks.
///
/// # Errors
/// Why it does not work.
pub(crate) async fn find(
    lane: &McpLane,
    server: &Server,
    passed: &Passed,
) -> Result<Spoken, String> {
    match &server.kind {
        ServerKind::Url { token } => http::find(lane, passed, token.as_ref()).await,
        ServerKind::Child(command) => {
            let command = server.command_for(command, passed.agent());
            child::find(lane, passed, &command).await
        }
    }
}

/// Asks a server over HTTP whose revisions are known as cheaply as it can be asked; gives whether it still seems to speak them.
pub(crate) async fn is_same(
    lane: &McpLane,
    token: Option<&Secret>,
    passed: &Passed,
    spoken: &Spoken,
) -> Result<bool, String> {
    http::is_same(lane, passed, token, spoken).await
}

/// The request that finds the modern era.
fn discover() -> String {
    let dates = Revision::dates(Era::Modern);
    let meta = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": dates.last(),
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": client(),
    });
    request("server/discover", &serde_json::json!({ "_meta": meta }))
}

/// The request that finds the other, of a client that is capable of `can`.
pub(super) fn initialize(can: CapabilitySet) -> String {
    let params = serde_json::json!({
        "protocolVersion": Revision::dates(Era::Legacy).last(),
        "capabilities": can.to_json(),
        "clientInfo": client(),
    });
    request("initialize", &params)
}

fn request(method: &str, params: &Value) -> String {
    let id = id_of(method);
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        .to_string()
}

/// The id of a request of the probe. No client's: the probe has a session, a child or a connection for itself.
fn id_of(method: &str) -> String {
    format!("weir:probe:{method}")
}

fn client() -> Value {
    serde_json::json!({ "name": "weir", "version": env!("CARGO_PKG_VERSION") })
}

/// The modern revisions that the answer to `server/discover` shows; none where it is no answer of that era.
fn discovered(answer: &Value) -> Vec<&'static Revision> {
    let error = &answer["error"];
    let listed = match error["code"].as_i64() {
        Some(code) if MODERN_ERRORS.contains(&code) => {
            return Revision::dates(Era::Modern)
                .last()
                .and_then(Revision::of)
                .into_iter()
                .collect();
        }
        Some(REVISION_UNKNOWN) => &error["data"]["supported"],
        Some(_) => return Vec::new(),
        None => &answer["result"]["supportedVersions"],
    };
    let listed = listed.as_array().map_or(&[][..], Vec::as_slice);
    let listed = listed.iter().take(LISTED_MAX).filter_map(Value::as_str);
    let known = listed.filter_map(Revision::of);
    let mut known: Vec<_> = known
        .filter(|revision| revision.era == Era::Modern)
        .collect();
    known.sort_by_key(|revision| revision.date);
    known.dedup();
    known
}

/// The revision in which a server begins a session; nothing where its answer to `initialize` begins none. One of a date that
/// is not known is taken for the newest that has sessions.
fn begun(answer: &Value) -> Option<&'static Revision> {
    let result = answer.get("result").filter(|result| result.is_object())?;
    let named = result["protocolVersion"].as_str();
    let known = named.and_then(Revision::of);
    known
        .filter(|revision| revision.era == Era::Legacy)
        .or_else(|| Revision::dates(Era::Legacy).last().and_then(Revision::of))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spoken(legacy: &str) -> Arc<Spoken> {
        Arc::new(Spoken {
            modern: Vec::new(),
            legacy: Revision::of(legacy),
            transport: Transport::Streamable,
        })
    }

    #[test]
    fn what_is_known_changes_by_what_happens() {
        let (old, new) = (spoken("2025-03-26"), spoken("2025-11-25"));
        let down = |last: Option<&Arc<Spoken>>| EraState::Down {
            why: "it ended".to_owned(),
            last: last.cloned(),
        };
        let failed = || EraEvent::Failed("it ended".to_owned());
        let known = EraState::Known(old.clone());
        let doubted = EraState::Doubted(old.clone());
        let asking = EraState::Asking(Some(old.clone()));
        let found = EraState::Known(new.clone());
        for (before, event, after) in [
            (EraState::Unknown, EraEvent::Asked, EraState::Asking(None)),
            (EraState::Unknown, EraEvent::Doubt, EraState::Unknown),
            (
                EraState::Asking(None),
                EraEvent::Found(new.clone()),
                found.clone(),
            ),
            (EraState::Asking(None), failed(), down(None)),
            (known.clone(), EraEvent::Asked, known.clone()),
            (known.clone(), EraEvent::Doubt, doubted.clone()),
            (known.clone(), failed(), down(Some(&old))),
            (doubted.clone(), EraEvent::Doubt, doubted.clone()),
            (doubted.clone(), EraEvent::Asked, asking.clone()),
            (asking.clone(), EraEvent::Found(new.clone()), found.clone()),
            (asking, failed(), down(Some(&old))),
            (down(Some(&old)), EraEvent::Asked, down(Some(&old))),
            (down(None), EraEvent::Found(new.clone()), found),
        ] {
            let shown = format!("{before:?} {event:?}");
            assert_eq!(before.after(event), after, "{shown}");
        }
        assert!(known.server() == ServerState::Works && !known.is_to_be_found());
        assert!(doubted.server() == ServerState::Works && doubted.is_to_be_found());
        for starting in [EraState::Unknown, EraState::Asking(None)] {
            assert_eq!(starting.server(), ServerState::Starting);
        }
        let ended = ServerState::Down("it ended".to_owned());
        assert_eq!(down(Some(&old)).server(), ended);
        assert_eq!(down(Some(&old)).spoken(), Some(&old));
    }

    #[test]
    fn the_era_of_an_answer() {
        let modern = |answer: Value| discovered(&answer).iter().map(|r| r.date).collect();
        let error = |code: i64, data: Value| json!({"error": {"code": code, "data": data}});
        let found: &[(Value, &[&str])] = &[
            (
                json!({"result": {"supportedVersions": ["2026-07-28"]}}),
                &["2026-07-28"],
            ),
            (
                json!({"result": {"supportedVersions": ["2025-11-25", "2026-07-28", "2026-07-28", 7]}}),
                &["2026-07-28"],
            ),
            // A server that lists the older era alone, and one of a revision that nobody knows here.
            (
                json!({"result": {"supportedVersions": ["2025-11-25"]}}),
                &[],
            ),
            (
                json!({"result": {"supportedVersions": ["2031-01-01"]}}),
                &[],
            ),
            (json!({"result": {}}), &[]),
            (
                error(-32022, json!({"supported": ["2026-07-28"]})),
                &["2026-07-28"],
            ),
            (error(-32022, json!({"supported": ["2031-01-01"]})), &[]),
            (error(-32022, Value::Null), &[]),
            (error(-32020, Value::Null), &["2026-07-28"]),
            (error(-32021, Value::Null), &["2026-07-28"]),
            (error(-32601, Value::Null), &[]),
            (error(-32600, json!({"supported": ["2026-07-28"]})), &[]),
            (json!([]), &[]),
        ];
        for (answer, wanted) in found {
            let dates: Vec<&str> = modern(answer.clone());
            assert_eq!(dates, *wanted, "{answer}");
        }
        let legacy = |answer: Value| begun(&answer).map(|revision| revision.date);
        let says = |date: &str| json!({"result": {"protocolVersion": date}});
        assert_eq!(legacy(says("2025-03-26")), Some("2025-03-26"));
        assert_eq!(legacy(says("2024-10-07")), Some("2025-11-25"));
        assert_eq!(legacy(says("2026-07-28")), Some("2025-11-25"));
        assert_eq!(legacy(error(-32022, Value::Null)), None);
        assert_eq!(legacy(json!({"result": 7})), None);
    }
}

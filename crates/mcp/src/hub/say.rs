//! What weir says of itself to a client of many servers.

use bytes::Bytes;
use http::StatusCode;
use net::Response;
use serde_json::{Value, json};

use super::sessions::SetSession;
use super::{Asking, answer};
use crate::actions::USE;
use crate::envelope::Id;
use crate::era::{CapabilitySet, Era, Revision};
use crate::inbound;
use crate::incoming::Parsed;

/// How long a client may keep what weir says of itself, in milliseconds.
const DISCOVER_TTL_MS: u64 = 60_000;
pub(super) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Asking<'_> {
    /// Answers `initialize`: the revision that the client asks for, where it is one with sessions over streamable HTTP, else
    /// the newest of these. What the session agreed on is in its id, sealed.
    pub(super) async fn initialize(&self, id: Id<'_>, message: (&Bytes, &Parsed<'_>)) -> Response {
        let asked = message
            .1
            .params()
            .and_then(|params| params.get("protocolVersion"));
        let asked = asked.and_then(base::JsonValue::as_str);
        let fits = |revision: &&Revision| revision.era == Era::Legacy && revision.is_streamable;
        let asked = asked.and_then(|date| Revision::of(&date)).filter(fits);
        let newest = Revision::dates(Era::Legacy).last().unwrap_or_default();
        let result = json!({
            "protocolVersion": asked.map_or(newest, |revision| revision.date),
            "capabilities": capabilities(),
            "serverInfo": info(),
        });
        let passed = match self.pass(&USE, "initialize", Some(message)).await {
            Ok(passed) => passed,
            Err(refusal) => return self.judged(&refusal, id),
        };
        super::end(passed, 200);
        let shared = &self.lane.shared;
        let declared = message
            .1
            .params()
            .and_then(|params| params.get("capabilities"));
        let session = SetSession {
            number: (shared.settings.new_id)().to_string(),
            can: CapabilitySet::of(declared),
        };
        let tokens = shared.tokens(self.agent(), self.name);
        let session = tokens.session(&session.inside(&shared.hub.process));
        inbound::json(
            StatusCode::OK,
            answer(id, &result.to_string()),
            Some(&session),
        )
    }

    /// The result of `server/discover`.
    pub(super) fn discover(&self) -> String {
        let dates: Vec<&str> = Revision::dates(Era::Modern).collect();
        json!({
            "resultType": "complete",
            "supportedVersions": dates,
            "capabilities": capabilities(),
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "private",
            "_meta": { SERVER_INFO: info() },
        })
        .to_string()
    }
}

/// What is offered, whatever the servers are: a list of what none has is empty.
fn capabilities() -> Value {
    json!({
        "completions": {},
        "logging": {},
        "prompts": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "tools": { "listChanged": true },
    })
}

pub(super) fn info() -> Value {
    json!({ "name": "weir", "version": env!("CARGO_PKG_VERSION") })
}

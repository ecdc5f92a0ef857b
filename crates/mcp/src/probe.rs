//! Whether a server works, found out by asking it: at start, and again while it does not.
//!
//! The gateway's own traffic is made of calls too: by the agent `weir`, to servers that the configuration
//! names, each recorded.

use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::record::CallEnd;
use base::{CallId, Digest, Name, Refusal, Resource};
use bytes::Bytes;
use gate::{Call, CallEnding, Passed};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use net::{Backoff, LineError, children};

use crate::actions::USE;
use crate::envelope::{Message, MessageText, Sender};
use crate::lane::{McpLane, Server, ServerKind};

/// How long a server may take to answer a probe, in milliseconds. Some fetch what they need first.
const PROBE_MS_MAX: u64 = 30_000;
/// How often a server over HTTP that works is asked, in milliseconds.
const AGAIN_MS: u64 = 30_000;
/// How often idle sessions, and children that ended, are looked for, in milliseconds.
const TICK_MS: u64 = 1_000;

/// What was last seen of a server.
pub struct Health(Mutex<Result<(), String>>);

impl Default for Health {
    fn default() -> Health {
        Health(Mutex::new(Err("not asked yet".into())))
    }
}

impl Health {
    pub(crate) fn set(&self, seen: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    pub fn get(&self) -> Result<(), String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Milliseconds since the process first asked.
pub(crate) fn mono_ms() -> u64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Starts the tasks that watch every server and end idle sessions. Must be called inside a `LocalSet`, on
/// one thread of the process; the tasks end with it.
pub fn probe(lane: &McpLane, new_id: fn() -> CallId) {
    for name in lane.settings().servers.keys() {
        tokio::task::spawn_local(watch(lane.clone(), name.clone(), new_id));
    }
    let lane = lane.clone();
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            let servers = &lane.settings().servers;
            let idle_ms = |name: &Name| servers.get(name).map_or(0, |s| s.session_idle_ms);
            let gate = &lane.shared.gate;
            let stays = |agent: &Name, thumbprint: Option<&Digest>| {
                gate.lets_stay(crate::LANE.name, agent, thumbprint)
            };
            lane.shared.sessions.sweep(mono_ms(), idle_ms, stays);
        }
    });
}

async fn watch(lane: McpLane, name: Name, new_id: fn() -> CallId) {
    let (Some(server), Some(health)) = (
        lane.settings().servers.get(&name),
        lane.shared.health.get(&name),
    ) else {
        return;
    };
    let mut backoff = Backoff::new();
    loop {
        backoff.started(mono_ms());
        let seen = ask(&lane, server, new_id()).await;
        if let Err(why) = &seen {
            tracing::warn!(server = %name, why, "a server does not work");
        } else if health.get().is_err() {
            tracing::info!(server = %name, "a server works");
        }
        let works = seen.is_ok();
        health.set(seen);
        let wait_ms = if works {
            AGAIN_MS
        } else {
            backoff.ended(mono_ms()).max(TICK_MS)
        };
        let until = mono_ms() + wait_ms;
        // A child that works is not asked again until one of its sessions was seen to end badly.
        let is_child = matches!(server.kind, ServerKind::Child(_));
        while mono_ms() < until || (is_child && works && health.get().is_ok()) {
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            if works && health.get().is_err() {
                break;
            }
        }
    }
}

async fn ask(lane: &McpLane, server: &Server, id: CallId) -> Result<(), String> {
    let resource = Resource::server(server.name.clone());
    let call = Call::new(id, Ipv4Addr::LOCALHOST.into(), &USE, &resource, "probe");
    let passed = lane.shared.gate.own(call).await;
    let passed = passed.map_err(|refusal| format!("{refusal:?}"))?;
    let wait = Duration::from_millis(PROBE_MS_MAX);
    let seen = tokio::time::timeout(wait, async {
        match &server.kind {
            ServerKind::Url { token } => {
                let token = token.as_ref().map(|t| t.expose());
                ask_http(lane, &passed, token).await
            }
            ServerKind::Child(command) => ask_child(lane, &passed, command).await,
        }
    })
    .await
    .unwrap_or_else(|_| Err("it did not answer in time".into()));
    let (end, why) = match &seen {
        Ok(()) => (CallEnd::Complete, None),
        Err(why) => (CallEnd::Failed, Some(("mcp.server_down", why.as_str()))),
    };
    passed.end(CallEnding {
        why,
        ..CallEnding::of(end)
    });
    seen
}

/// Any answer of HTTP that does not say that the server failed or knows us not.
async fn ask_http(lane: &McpLane, passed: &Passed, token: Option<&str>) -> Result<(), String> {
    let ping = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"weir:probe","method":"ping"}"#);
    let mut request = http::Request::new(ping);
    *request.method_mut() = http::Method::POST;
    let fields = request.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    if let Some(Ok(value)) = token.map(|t| HeaderValue::try_from(format!("Bearer {t}"))) {
        fields.insert(http::header::AUTHORIZATION, value);
    }
    let answer = lane.upstreams.send(passed, request, PROBE_MS_MAX).await;
    let mut answer = answer.map_err(|error| format!("{:?}", Refusal::from(error)))?;
    match answer.head.status.as_u16() {
        status @ (401 | 403 | 500..) => Err(format!("it answered {status}")),
        _ => {
            let _ = answer
                .whole(lane.settings().answer_bytes_max, PROBE_MS_MAX)
                .await;
            Ok(())
        }
    }
}

/// A child of its own that answers `initialize`; it ends when this returns.
async fn ask_child(
    lane: &McpLane,
    passed: &Passed,
    command: &children::Command,
) -> Result<(), String> {
    let bytes_max = lane.settings().answer_bytes_max;
    let spawned = children::spawn(passed, command, bytes_max);
    let (child, mut out) = spawned.map_err(|error| format!("it cannot be started: {error}"))?;
    let hello = concat!(
        r#"{"jsonrpc":"2.0","id":"weir:probe","method":"initialize","params":{"#,
        r#""protocolVersion":"2025-06-18","capabilities":{},"#,
        r#""clientInfo":{"name":"weir","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""}}}"#
    );
    let said = child
        .send(passed, Bytes::from_static(hello.as_bytes()))
        .await;
    said.map_err(|error| error.to_string())?;
    loop {
        match out.next().await {
            Some(Ok(line)) => {
                let text = MessageText::of(&line);
                match text.read(Sender::Server) {
                    Ok(Message::Response {
                        result: Some(_), ..
                    }) => return Ok(()),
                    Ok(Message::Response { .. }) => return Err("it refuses initialize".into()),
                    _ => {}
                }
            }
            Some(Err(LineError::TooLong)) => return Err("its answer is too large".into()),
            Some(Err(LineError::Exited(status))) => {
                return Err(status.map_or("it ended".into(), |s| format!("it ended: {s}")));
            }
            None => return Err("it ended".into()),
        }
    }
}

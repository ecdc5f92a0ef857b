//! Whether a server works, and what it speaks, found out by asking it: at start, and again while it does not.
//!
//! The gateway's own traffic is made of calls too: by the agent `weir`, to servers that the configuration
//! names, each recorded.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base::record::CallEnd;
use base::{CallId, Digest, Name, Resource};
use gate::{Call, CallEnding};
use net::Backoff;

use crate::actions::USE;
use crate::lane::{McpLane, Server, ServerKind};
use crate::upstream::find::{self, EraEvent, EraState, Spoken};
use crate::upstream::{ServerStarts, lock};

/// How long a server may take to answer a probe, in milliseconds. Some fetch what they need first.
const PROBE_MS_MAX: u64 = 30_000;
/// How often a server over HTTP that works is asked, in milliseconds.
const AGAIN_MS: u64 = 30_000;
/// How often idle sessions, and children that ended, are looked for, in milliseconds.
const TICK_MS: u64 = 1_000;

/// Time between two lines that a server lists something else, in milliseconds: each agent has a list of its own.
const LISTED_EVERY_MS: u64 = 10_000;

/// How a server is, as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It has not answered yet since it was configured or the gateway started, and was not seen to fail.
    Starting,
    Works,
    /// It was asked and does not work, for this reason.
    Down(String),
}

/// What is known of a server, and whether it works.
pub struct Health {
    state: Mutex<EraState>,
    /// When children of it may be started, for all its sessions.
    pub(crate) starts: Mutex<ServerStarts>,
    /// When it was last told that it lists something else.
    listed_ms: AtomicU64,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            state: Mutex::new(EraState::Unknown),
            starts: Mutex::default(),
            listed_ms: AtomicU64::new(u64::MAX),
        }
    }
}

impl Health {
    fn state(&self) -> MutexGuard<'_, EraState> {
        lock(&self.state)
    }

    /// Tells the operator, now and then, that the server lists something else than before.
    pub(crate) fn tell_other_list(&self, server: &Name, method: &str) {
        let now_ms = mono_ms();
        let last_ms = self.listed_ms.load(Ordering::Relaxed);
        if last_ms != u64::MAX && now_ms < last_ms.saturating_add(LISTED_EVERY_MS) {
            return;
        }
        self.listed_ms.store(now_ms, Ordering::Relaxed);
        tracing::warn!(%server, method, "a server lists something else than before");
    }

    fn hear(&self, event: EraEvent) {
        let mut state = self.state();
        *state = state.clone().after(event);
    }

    /// The server was asked and did not answer as one that works.
    fn failed(&self, why: &str) {
        self.hear(EraEvent::Failed(why.to_owned()));
    }

    /// The server said something that does not fit with the era that it spoke, or one of its children ended: it is asked again,
    /// and works for everybody until it was seen to fail.
    pub(crate) fn doubt(&self) {
        self.hear(EraEvent::Doubt);
    }

    /// What the server speaks, as far as it is known.
    pub(crate) fn spoken(&self) -> Option<Arc<Spoken>> {
        self.state().spoken().cloned()
    }

    /// Whether it was asked and does not work.
    pub(crate) fn is_down(&self) -> bool {
        matches!(*self.state(), EraState::Down { .. })
    }

    pub fn get(&self) -> ServerState {
        self.state().server()
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
            crate::hub::sweep(&lane.shared);
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
        let before = health.get();
        let worked = before == ServerState::Works;
        health.hear(EraEvent::Asked);
        let seen = ask(&lane, server, health, new_id()).await;
        let works = seen.is_ok();
        match seen {
            Ok(spoken) => {
                if health.spoken().is_some_and(|before| before != spoken) {
                    // What was begun in the other era is of no use.
                    lane.shared.hub.own.forget(|of| *of == name);
                }
                if !worked {
                    let revisions: Vec<_> = spoken.dates().collect();
                    if let ServerState::Down(_) = before {
                        lock(&health.starts).retry_now();
                        tracing::warn!(server = %name, ?revisions, "a server works again");
                    } else {
                        tracing::info!(server = %name, ?revisions, "a server works");
                    }
                    lane.shared.hub.lists.stale(|of| *of == name);
                    lane.shared.hub.changed();
                }
                health.hear(EraEvent::Found(spoken));
            }
            Err(why) => {
                tracing::warn!(server = %name, why, "a server does not work");
                health.failed(&why);
                if worked {
                    lane.shared.hub.changed();
                }
            }
        }
        let wait_ms = if works {
            AGAIN_MS
        } else {
            backoff.ended(mono_ms()).max(TICK_MS)
        };
        let until = mono_ms() + wait_ms;
        // A child that works is not asked again until one of its sessions was seen to end badly.
        let is_child = matches!(server.kind, ServerKind::Child(_));
        let is_to_be_found = || health.state().is_to_be_found();
        while mono_ms() < until || (is_child && works && !is_to_be_found()) {
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            if works && is_to_be_found() {
                break;
            }
        }
    }
}

/// One call of the gateway's own: whether the server works, and what it speaks.
async fn ask(
    lane: &McpLane,
    server: &Server,
    health: &Health,
    id: CallId,
) -> Result<Arc<Spoken>, String> {
    let resource = Resource::server(server.name.clone());
    let call = Call::new(id, Ipv4Addr::LOCALHOST.into(), &USE, &resource, "probe");
    let passed = lane.shared.gate.own(call).await;
    let passed = passed.map_err(|refusal| format!("{refusal:?}"))?;
    let state = health.state().clone();
    let wait = Duration::from_millis(PROBE_MS_MAX);
    let seen = tokio::time::timeout(wait, async {
        if let (EraState::Known(spoken), ServerKind::Url { token }) = (&state, &server.kind)
            && find::is_same(lane, token.as_ref(), &passed, spoken).await?
        {
            return Ok(Arc::clone(spoken));
        }
        find::find(lane, server, &passed).await.map(Arc::new)
    })
    .await
    .unwrap_or_else(|_| Err("it did not answer in time".into()));
    let (end, why) = match &seen {
        Ok(_) => (CallEnd::Complete, None),
        Err(why) => (CallEnd::Failed, Some(("mcp.server_down", why.as_str()))),
    };
    passed.end(CallEnding {
        why,
        ..CallEnding::of(end)
    });
    seen
}

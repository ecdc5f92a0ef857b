//! Links of weir's own: how a message of a client of many servers reaches one of them.
//!
//! The sessions that servers give are weir's, one for each agent and server, begun when they are needed first, and again where
//! the server has forgotten one: a message that it did not take for that reason is sent once more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base::{Name, Refusal, refusal};
use bytes::Bytes;
use gate::Passed;
use net::Response;
use tokio::sync::Mutex as AsyncMutex;

use super::{Link, Outgoing, http, lock, session, shared};
use crate::answers::Answers;
use crate::era::{CapabilitySet, Era};
use crate::inbound::rpc_error;
use crate::lane::{McpLane, Server, ServerKind};
use crate::probe::mono_ms;
use crate::upstream::find::Transport;

/// A session with a server over HTTP: nothing before it is begun; a server may have sessions without an id.
pub(crate) type OwnSession = Arc<AsyncMutex<Option<Option<String>>>>;
/// A server, an agent, and what its client is capable of: servers look at that when a session begins.
type Key = (Name, Name, CapabilitySet);

/// The sessions of weir's own: as many as there are of each part of their key.
#[derive(Default)]
pub(crate) struct OwnLinks {
    http: Mutex<HashMap<Key, OwnSession>>,
    children: Mutex<HashMap<Key, Vec<OwnChild>>>,
}

/// A child that is kept for an agent.
struct OwnChild {
    id: String,
    /// Held by the one call that it may ask something, where it may.
    taken: Arc<()>,
}

/// How a message of weir's own reaches its server.
#[derive(Clone, Default)]
pub(crate) enum OwnWay {
    /// As its era has it, over HTTP.
    #[default]
    Http,
    /// The same, in a session with these capabilities.
    Session(CapabilitySet),
    /// A child that all calls of the agent share, each of which says all of itself.
    Shared,
    /// A child in a session, which is this call's alone where it may ask something.
    Child(
        Arc<Link>,
        #[allow(dead_code, reason = "no other call has the child while this is held")]
        Option<Arc<()>>,
    ),
}

impl OwnLinks {
    pub(crate) fn session(&self, server: &Name, agent: &Name, can: CapabilitySet) -> OwnSession {
        let mut sessions = lock(&self.http);
        let key = (server.clone(), agent.clone(), can);
        Arc::clone(sessions.entry(key).or_default())
    }

    /// Forgets what was begun with these servers.
    pub(crate) fn forget(&self, is_over: impl Fn(&Name) -> bool) {
        lock(&self.http).retain(|(of, ..), _| !is_over(of));
        lock(&self.children).retain(|(of, ..), _| !is_over(of));
    }
}

/// The way of a call to a server, in an era, for a client that is capable of `can`.
///
/// # Errors
/// Why there is no child for it.
pub(crate) fn way(
    lane: &McpLane,
    server: &Server,
    passed: &Passed,
    era: Era,
    can: CapabilitySet,
) -> Result<OwnWay, Refusal> {
    match (&server.kind, era) {
        (ServerKind::Url { .. }, Era::Modern) => Ok(OwnWay::Http),
        // A server of HTTP+SSE has one channel for a session, as a child has.
        (ServerKind::Url { .. }, Era::Legacy) if lane.shared.keeps_sessions(server) => {
            child_of(lane, server, passed, can)
        }
        (ServerKind::Url { .. }, Era::Legacy) if is_of_events(lane, server) => {
            child_of(lane, server, passed, can)
        }
        (ServerKind::Url { .. }, Era::Legacy) => Ok(OwnWay::Session(can)),
        (ServerKind::Child(_), Era::Modern) => Ok(OwnWay::Shared),
        (ServerKind::Child(_), Era::Legacy) => child_of(lane, server, passed, can),
    }
}

/// Whether a server speaks HTTP+SSE, whose sessions are links as those of children are.
fn is_of_events(lane: &McpLane, server: &Server) -> bool {
    let spoken = lane.shared.spoken(&server.name);
    spoken.is_some_and(|spoken| spoken.transport == Transport::Events)
}

/// Carries one message and its answer. `client` is the client's session with weir, which its ids are of.
pub(crate) async fn carry(
    lane: &McpLane,
    server: &Server,
    way: &OwnWay,
    mut answers: Answers,
    mut outgoing: Outgoing,
    client: Option<&str>,
) -> Response {
    if let Err(refusal) = answers.begin_on(&lane.shared.calls, client, way) {
        return rpc_error(answers, &refusal);
    }
    let can = match way {
        OwnWay::Session(can) => *can,
        _ => CapabilitySet::default(),
    };
    match way {
        OwnWay::Http | OwnWay::Session(_) => {
            let session = http::SessionOf::Weir { client, can };
            http::carry(lane, server, answers, outgoing, session).await
        }
        OwnWay::Shared => shared::carry(lane, server, answers, outgoing).await,
        OwnWay::Child(link, _) => {
            // Several clients of the agent share it, each with ids of its own.
            outgoing.id = outgoing.id.map(|_| crate::calls::own_id(answers.call()));
            session::carry(lane, server, link, answers, outgoing).await
        }
    }
}

/// A child of the agent: one for all calls that it asks nothing, else one that no other call has now. On standard input and
/// output nothing says of which call a question is.
fn child_of(
    lane: &McpLane,
    server: &Server,
    passed: &Passed,
    can: CapabilitySet,
) -> Result<OwnWay, Refusal> {
    let agent = passed.agent();
    let key = (server.name.clone(), agent.clone(), can);
    let (own, sessions) = (&lane.shared.hub.own, &lane.shared.sessions);
    let mut children = lock(&own.children);
    let known = children.entry(key).or_default();
    known.retain(|child| sessions.find(&child.id, agent, &server.name).is_some());
    let is_free = |child: &&OwnChild| can.is_empty() || Arc::strong_count(&child.taken) == 1;
    if let Some(child) = known.iter().find(is_free)
        && let Some(link) = sessions.find(&child.id, agent, &server.name)
    {
        let taken = (!can.is_empty()).then(|| Arc::clone(&child.taken));
        return Ok(OwnWay::Child(link, taken));
    }
    let link = sessions.begin(agent, passed.thumbprint(), server, mono_ms())?;
    link.own();
    let initialize = Bytes::from(super::find::initialize(can));
    if link.initialize.set(initialize).is_err() {
        return Err(Refusal::new(refusal::FAILED, "a new link is begun already"));
    }
    let child = OwnChild {
        id: link.id.clone(),
        taken: Arc::default(),
    };
    let taken = (!can.is_empty()).then(|| Arc::clone(&child.taken));
    known.push(child);
    Ok(OwnWay::Child(link, taken))
}

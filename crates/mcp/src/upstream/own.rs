//! Links of weir's own: how a message of a client of many servers reaches one of them.
//!
//! The sessions that servers give are weir's, one for each agent and server, begun when they are needed first, and again where
//! the server has forgotten one: a message that it did not take for that reason is sent once more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base::{Name, Refusal, refusal};
use bytes::Bytes;
use net::Response;
use tokio::sync::Mutex as AsyncMutex;

use super::{Link, Outgoing, child, http, lock, shared};
use crate::answers::Answers;
use crate::era::Era;
use crate::inbound::rpc_error;
use crate::lane::{McpLane, Server, ServerKind};
use crate::probe::mono_ms;

/// A session with a server over HTTP: nothing before it is begun; a server may have sessions without an id.
pub(crate) type OwnSession = Arc<AsyncMutex<Option<Option<String>>>>;

/// The sessions of weir's own, by server and agent; as many as there are of both.
#[derive(Default)]
pub(crate) struct OwnLinks {
    http: Mutex<HashMap<(Name, Name), OwnSession>>,
    children: Mutex<HashMap<(Name, Name), String>>,
}

impl OwnLinks {
    pub(crate) fn session(&self, server: &Name, agent: &Name) -> OwnSession {
        let mut sessions = lock(&self.http);
        let key = (server.clone(), agent.clone());
        Arc::clone(sessions.entry(key).or_default())
    }

    /// Forgets what was begun with a server.
    pub(crate) fn forget(&self, server: &Name) {
        lock(&self.http).retain(|(of, _), _| of != server);
        lock(&self.children).retain(|(of, _), _| of != server);
    }
}

/// Carries one message and its answer. `client` is the client's session with weir, which its ids are of.
pub(crate) async fn carry(
    lane: &McpLane,
    server: &Server,
    answers: Answers,
    mut outgoing: Outgoing,
    client: Option<&str>,
) -> Response {
    match &server.kind {
        ServerKind::Url { .. } => {
            let session = http::SessionOf::Weir { client };
            http::carry(lane, server, answers, outgoing, session).await
        }
        ServerKind::Child(_) if outgoing.era() == Era::Modern => {
            shared::carry(lane, server, answers, outgoing).await
        }
        ServerKind::Child(_) => match link(lane, server, &answers) {
            Ok(link) => {
                // Several clients of the agent share it, each with ids of its own.
                outgoing.id = outgoing.id.map(|_| crate::calls::own_id(answers.call()));
                child::carry(lane, server, &link, answers, outgoing).await
            }
            Err(refusal) => rpc_error(answers, &refusal),
        },
    }
}

/// The agent's child of a server, for all its clients.
fn link(lane: &McpLane, server: &Server, answers: &Answers) -> Result<Arc<Link>, Refusal> {
    let passed = answers.passed();
    let agent = passed.agent();
    let key = (server.name.clone(), agent.clone());
    let (own, sessions) = (&lane.shared.own, &lane.shared.sessions);
    let mut children = lock(&own.children);
    let known = children.get(&key);
    let known = known.and_then(|id| sessions.find(id, agent, &server.name));
    if let Some(link) = known {
        return Ok(link);
    }
    let link = sessions.begin(agent, passed.thumbprint(), server, mono_ms())?;
    let initialize = Bytes::from(super::find::initialize());
    if link.initialize.set(initialize).is_err() {
        return Err(Refusal::new(refusal::FAILED, "a new link is begun already"));
    }
    children.insert(key, link.id.clone());
    Ok(link)
}

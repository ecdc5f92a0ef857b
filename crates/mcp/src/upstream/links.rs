//! The links that weir keeps, of all threads: found by their session or by whose they are, bounded, and ended when they
//! are idle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_lc_rs::rand;
use base::limit::SESSION_EVICT_MS;
use base::{Digest, Name, Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Link, LinkScope, lock};
use crate::lane::Server;
use crate::waiting::gone;

/// When a client that found no session left may try again, in milliseconds.
const SESSION_RETRY_MS: u64 = 10_000;

/// The sessions that weir keeps, of all threads.
#[derive(Default)]
pub(crate) struct Links {
    table: Mutex<HashMap<String, Arc<Link>>>,
}

impl Links {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Link>>> {
        lock(&self.table)
    }

    /// A new session. Where the agent or the server has as many as it may have, the one that is unused for
    /// the longest time makes room for it: one of the agent's own, or where the server is full one of
    /// another's that was unused for [`SESSION_EVICT_MS`].
    ///
    /// # Errors
    /// `mcp.server_busy` where none can make room.
    pub(crate) fn begin(
        &self,
        agent: &Name,
        thumbprint: Option<Digest>,
        server: &Server,
        now_ms: u64,
    ) -> Result<Arc<Link>, Refusal> {
        let mut random = [0; 16];
        rand::fill(&mut random)
            .map_err(|_| Refusal::new(refusal::FAILED, "no random bytes for a session id"))?;
        let id = URL_SAFE_NO_PAD.encode(random);
        let (agent_name, server_name) = (agent.clone(), server.name.clone());
        let scope = LinkScope::Session;
        let session = Link::new(id, agent_name, thumbprint, server_name, scope, now_ms);
        self.insert(self.table(), session, server, now_ms)
    }

    /// The link that all calls share which an agent makes with one key; a new one where there is none.
    ///
    /// # Errors
    /// `mcp.server_busy`, as for a session.
    pub(crate) fn share(
        &self,
        agent: &Name,
        thumbprint: Option<Digest>,
        server: &Server,
        now_ms: u64,
    ) -> Result<Arc<Link>, Refusal> {
        let key = thumbprint.map_or_else(String::new, |key| key.to_string());
        // No id of a session holds a space.
        let id = format!("{} {agent} {key}", server.name);
        let table = self.table();
        if let Some(link) = table.get(&id) {
            // While the table is locked, so that it is not taken for one that is idle.
            link.used(now_ms);
            return Ok(Arc::clone(link));
        }
        let (agent_name, server_name) = (agent.clone(), server.name.clone());
        let scope = LinkScope::Shared;
        let link = Link::new(id, agent_name, thumbprint, server_name, scope, now_ms);
        self.insert(table, link, server, now_ms)
    }

    fn insert(
        &self,
        mut table: MutexGuard<'_, HashMap<String, Arc<Link>>>,
        link: Link,
        server: &Server,
        now_ms: u64,
    ) -> Result<Arc<Link>, Refusal> {
        let link = Arc::new(link);
        let evicted = make_room(&table, &link.agent, server, now_ms)?;
        if let Some(evicted) = &evicted {
            table.remove(&evicted.id);
        }
        table.insert(link.id.clone(), Arc::clone(&link));
        drop(table);
        if let Some(evicted) = evicted {
            evicted.end(&gone("it made room for another"));
        }
        Ok(link)
    }

    /// The session with this id, if it is this agent's with this server.
    pub(crate) fn find(&self, id: &str, agent: &Name, server: &Name) -> Option<Arc<Link>> {
        let session = self.table().get(id).cloned()?;
        let is_own = session.agent == *agent && session.server == *server;
        (is_own && session.scope == LinkScope::Session).then_some(session)
    }

    /// Takes the links of these servers out: nobody finds them any more, and calls under way go on.
    pub(crate) fn retire(&self, is_over: impl Fn(&Name) -> bool) -> Vec<Arc<Link>> {
        let mut table = self.table();
        let retired = table.extract_if(|_, session| is_over(&session.server));
        retired.map(|(_, session)| session).collect()
    }

    pub(crate) fn end(&self, session: &Link, why: &Refusal) {
        self.table().remove(&session.id);
        session.end(why);
    }

    /// Ends the sessions that were unused for longer than `idle_ms` says of their server, and those of agents
    /// that may not stay, with the reason that `stays` gives.
    pub(crate) fn sweep(
        &self,
        now_ms: u64,
        idle_ms: impl Fn(&Name) -> u64,
        stays: impl Fn(&Name, Option<&Digest>) -> Result<(), Refusal>,
    ) {
        let over = |session: &Link| {
            // A subscription keeps a shared link in use, however long it is silent.
            let is_in_use = session.scope == LinkScope::Shared && !session.is_unused();
            if !is_in_use && session.idle_ms(now_ms) > idle_ms(&session.server) {
                return Some(gone("it was idle"));
            }
            stays(&session.agent, session.thumbprint.as_ref()).err()
        };
        let open: Vec<_> = self.table().values().cloned().collect();
        for session in open {
            if let Some(why) = over(&session) {
                self.end(&session, &why);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

/// The session that has to end so that the agent may begin one with the server; nothing where there is room.
fn make_room(
    table: &HashMap<String, Arc<Link>>,
    agent: &Name,
    server: &Server,
    now_ms: u64,
) -> Result<Option<Arc<Link>>, Refusal> {
    let sessions: Vec<_> = table.values().filter(|s| s.server == server.name).collect();
    let own = |session: &Link| session.agent == *agent;
    let agent_is_full = sessions.iter().filter(|s| own(s)).count() >= server.agent_sessions_max;
    if !agent_is_full && sessions.len() < server.sessions_max {
        return Ok(None);
    }
    let may_end = |session: &Link| {
        let long_unused = !agent_is_full && session.idle_ms(now_ms) >= SESSION_EVICT_MS;
        (own(session) || long_unused) && session.is_unused()
    };
    let candidates = sessions.iter().filter(|s| may_end(s));
    let oldest = candidates.min_by_key(|s| s.used_ms());
    match oldest {
        Some(oldest) => Ok(Some(Arc::clone(oldest))),
        None => {
            let public = match agent_is_full {
                true => "this agent has no session left with the server, and all are in use",
                false => "the server has no session left",
            };
            let refusal = Refusal::new(refusal::SERVER_BUSY, public);
            Err(refusal.with_retry_ms(SESSION_RETRY_MS))
        }
    }
}

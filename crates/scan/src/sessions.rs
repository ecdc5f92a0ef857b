//! What is remembered of each agent between its calls: ends of arguments, steps, what was spent.
//!
//! Bounded in number and in time: the agent that was silent longest is forgotten first.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use base::limit::{SESSION_AGENTS_MAX, SESSION_IDLE_MS_MAX};

use crate::budget::Budget;
use crate::chain::Chain;
use crate::fragments::Fragments;

const SHARDS: usize = 16;

/// What is remembered of one agent.
#[derive(Debug, Default)]
pub struct Session {
    pub(crate) fragments: Fragments,
    pub(crate) chain: Chain,
    /// Made when the first URL is asked.
    pub(crate) budget: Option<Box<Budget>>,
    /// Calls that were begun, so that each has a number.
    calls: u64,
}

impl Session {
    /// What `body` has the session remember, as one call that can be taken back by its number.
    fn call<R>(&mut self, body: impl FnOnce(&mut Session) -> R) -> (R, u64) {
        self.calls += 1;
        let call = self.calls;
        self.fragments.begin(Some(call));
        self.chain.begin(Some(call));
        let result = body(self);
        self.fragments.begin(None);
        self.chain.begin(None);
        (result, call)
    }

    fn keep(&mut self, call: u64) {
        self.fragments.keep(call);
        self.chain.keep(call);
    }

    fn take_back(&mut self, call: u64) {
        self.fragments.take_back(call);
        self.chain.take_back(call);
    }
}

/// What a session remembers of a call that is judged and may still be refused. It counts for the calls that are judged
/// meanwhile. Dropped without [`Pending::keep`], it is forgotten: a call that was refused did not happen.
#[derive(Debug)]
pub struct Pending {
    session: Arc<Mutex<Session>>,
    /// `None` once it is kept.
    call: Option<u64>,
}

impl Pending {
    /// The call passes.
    pub fn keep(mut self) {
        if let Some(call) = self.call.take() {
            lock(&self.session).keep(call);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            lock(&self.session).take_back(call);
        }
    }
}

/// A session, and when it was last asked for.
#[derive(Debug, Default)]
struct Kept {
    session: Arc<Mutex<Session>>,
    seen_ms: u64,
}

/// The sessions of all agents.
#[derive(Debug, Default)]
pub struct Sessions {
    shards: [Mutex<HashMap<String, Kept>>; SHARDS],
    hasher: RandomState,
}

impl Sessions {
    /// Does something with the session of an agent; `now_ms` is the monotonic clock. Calls of one agent
    /// wait for each other here, and for no other agent's.
    pub fn with<R>(&self, agent: &str, now_ms: u64, body: impl FnOnce(&mut Session) -> R) -> R {
        let session = self.of(agent, now_ms);
        body(&mut lock(&session))
    }

    /// The same of a call that may still be refused.
    pub fn judge<R>(
        &self,
        agent: &str,
        now_ms: u64,
        body: impl FnOnce(&mut Session) -> R,
    ) -> (R, Pending) {
        let session = self.of(agent, now_ms);
        let (result, call) = lock(&session).call(body);
        let call = Some(call);
        (result, Pending { session, call })
    }

    fn of(&self, agent: &str, now_ms: u64) -> Arc<Mutex<Session>> {
        let shard = self.hasher.hash_one(agent) as usize % SHARDS;
        let mut agents = lock(&self.shards[shard]);
        if !agents.contains_key(agent) {
            forget(&mut agents, now_ms);
            agents.insert(agent.to_owned(), Kept::default());
        }
        let kept = agents.get_mut(agent).expect("it is there now");
        if now_ms.saturating_sub(kept.seen_ms) > SESSION_IDLE_MS_MAX {
            kept.session = Arc::default();
        }
        kept.seen_ms = now_ms;
        Arc::clone(&kept.session)
    }
}

/// Makes room for one more: everyone goes who was silent for long, or else who was silent longest.
fn forget(agents: &mut HashMap<String, Kept>, now_ms: u64) {
    if agents.len() < SESSION_AGENTS_MAX / SHARDS {
        return;
    }
    agents.retain(|_, session| now_ms.saturating_sub(session.seen_ms) <= SESSION_IDLE_MS_MAX);
    if agents.len() >= SESSION_AGENTS_MAX / SHARDS {
        let oldest = agents.iter().min_by_key(|(_, session)| session.seen_ms);
        let oldest = oldest.map(|(agent, _)| agent.clone());
        agents.remove(&oldest.expect("the map is full"));
    }
}

/// A panic while a session was held leaves it as it was: there is nothing in it that could be half done. What was
/// remembered of that call stays pending, and counts.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_in_number_and_time() {
        let sessions = Sessions::default();
        for i in 0..SESSION_AGENTS_MAX * 2 {
            sessions.with(&format!("agent-{i}"), i as u64, |_| ());
        }
        let count: usize = sessions.shards.iter().map(|shard| lock(shard).len()).sum();
        assert!(count <= SESSION_AGENTS_MAX, "{count}");
        let last = SESSION_AGENTS_MAX as u64 * 2;
        let kept = |name: &str, now| sessions.with(name, now, |session| session.budget.is_some());
        sessions.with("a", last, |s| {
            s.budget = Some(Box::new(Budget::new(Default::default())))
        });
        assert!(kept("a", last + 1));
        assert!(!kept("a", last + 2 + SESSION_IDLE_MS_MAX));
    }
}

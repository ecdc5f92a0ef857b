//! The gate's ports that `store` does not implement: the clock, the meter, and who is known now.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use base::record::CallEnd;
use base::{Digest, Name, Now, Resource};
use gate::ports::Reply;
use identity::{Agent, TokenTrust};
use store::directory::{CredentialKind, DirectoryBook, EntryState};

use crate::metrics::Metrics;

/// The machine's clocks.
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }
}

impl gate::ports::Clock for Clock {
    fn now(&self) -> Now {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            unix_ms: millis(unix),
            mono_ms: millis(self.start.elapsed()),
        }
    }

    fn after(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// The machine's clocks, for who has no clock of the gateway's: the monotonic one begins when it is first asked.
pub(crate) fn now() -> Now {
    static START: LazyLock<Clock> = LazyLock::new(Clock::new);
    gate::ports::Clock::now(&*START)
}

/// Who is known now: replaced whole when the configuration is read again.
pub(crate) struct Known {
    agents: ArcSwap<store::Agents>,
    epoch: AtomicU64,
    parts: Mutex<KnownParts>,
    trust: ArcSwapOption<TokenTrust>,
}

/// What a snapshot of who is known is made of.
#[derive(Default)]
struct KnownParts {
    /// Of the configuration, with the hash of each key.
    configured: Vec<(Digest, Arc<Agent>)>,
    /// Of the directory that is changed while serving.
    book: DirectoryBook,
    /// Which agent a digest stands for that is no key: a subject of an outside issuer, a SPIFFE id.
    mapped: Vec<(Digest, Name)>,
}

impl KnownParts {
    fn snapshot(&self) -> store::Agents {
        let configured: HashSet<&Name> = self
            .configured
            .iter()
            .map(|(_, agent)| &agent.name)
            .collect();
        let (mut keys, mut others) = (self.configured.clone(), Vec::new());
        let mut by_name: HashMap<Name, Arc<Agent>> = HashMap::new();
        for (_, agent) in &self.configured {
            by_name.insert(agent.name.clone(), Arc::clone(agent));
        }
        for entry in &self.book.agents {
            // What the configuration defines is not changed by the directory.
            let name = entry.name().filter(|name| !configured.contains(name));
            let Some(name) = name.filter(|_| entry.state != EntryState::Invited) else {
                continue;
            };
            let groups = entry.groups.iter().filter_map(|group| Name::new(group));
            let agent = Agent {
                name: name.clone(),
                groups: groups.collect(),
                state: entry.state.into(),
                expires_unix_ms: entry.expires_unix_ms,
            };
            by_name.insert(name, Arc::new(agent.clone()));
            for credential in &entry.credentials {
                let Some(digest) = credential.digest() else {
                    continue;
                };
                let until = [agent.expires_unix_ms, credential.expires_unix_ms];
                let agent = Arc::new(Agent {
                    expires_unix_ms: until.into_iter().flatten().min(),
                    ..agent.clone()
                });
                match credential.kind {
                    CredentialKind::Key => keys.push((digest, agent)),
                    CredentialKind::Jwk | CredentialKind::Certificate => {
                        others.push((digest, agent));
                    }
                }
            }
        }
        let mapped = self.mapped.iter();
        others.extend(
            mapped.filter_map(|(digest, name)| Some((*digest, by_name.get(name)?.clone()))),
        );
        let revoked = self.book.tokens.iter();
        store::Agents::new(keys.into_iter())
            .with_credentials(others.into_iter())
            .with_revoked(revoked.filter_map(|token| Digest::from_hex(&token.id)))
    }
}

impl Known {
    pub(crate) fn new(agents: store::Agents) -> Known {
        Known {
            agents: ArcSwap::from_pointee(agents),
            epoch: AtomicU64::new(0),
            parts: Mutex::default(),
            trust: ArcSwapOption::empty(),
        }
    }

    /// Puts the agents of the configuration in force, each with the hash of a key.
    pub(crate) fn configure(&self, configured: Vec<(Digest, Arc<Agent>)>) {
        self.change(|parts| parts.configured = configured);
    }

    /// Puts the directory that is changed while serving in force.
    pub(crate) fn enter(&self, book: DirectoryBook) {
        self.change(|parts| {
            // A writer that was overtaken has nothing new to say.
            if book.epoch >= parts.book.epoch {
                parts.book = book;
            }
        });
    }

    /// Says which agents digests stand for that are no keys.
    pub(crate) fn map(&self, mapped: Vec<(Digest, Name)>) {
        self.change(|parts| parts.mapped = mapped);
    }

    /// Says whose tokens are taken from now on.
    pub(crate) fn set_trust(&self, trust: Arc<TokenTrust>) {
        self.trust.store(Some(trust));
    }

    /// What the configuration and the directory say now, for who shows it.
    pub(crate) fn agents(&self) -> (Vec<Arc<Agent>>, DirectoryBook) {
        let parts = self.lock();
        let configured = parts.configured.iter().map(|(_, agent)| Arc::clone(agent));
        (configured.collect(), parts.book.clone())
    }

    /// Reads the directory that is in force, without a copy of it. Nobody is recognised anew meanwhile, so `read` is short.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&DirectoryBook) -> T) -> T {
        read(&self.lock().book)
    }

    fn change(&self, change: impl FnOnce(&mut KnownParts)) {
        let mut parts = self.lock();
        change(&mut parts);
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        // Under the lock, so that an older snapshot never takes the place of a newer.
        self.agents
            .store(Arc::new(parts.snapshot().at_epoch(epoch)));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KnownParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl gate::ports::Directory for Known {
    fn epoch(&self) -> u64 {
        self.agents.load().epoch()
    }

    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>> {
        self.agents.load().agent_by_key(key)
    }

    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>> {
        self.agents.load().agent_by_thumbprint(thumbprint)
    }

    fn trust(&self) -> Option<Arc<TokenTrust>> {
        self.trust.load_full()
    }

    fn is_revoked(&self, token: &Digest) -> bool {
        self.agents.load().is_revoked(token)
    }
}

/// Ids of proofs that were used, in the memory of this process: their nonce names the process, so nobody else has to know
/// them. Where there is no room for one more, it counts as used.
pub(crate) struct UsedIds {
    shards: Vec<Mutex<HashMap<Digest, u64>>>,
    clock: Arc<Clock>,
}

/// Parts of the table, which are locked by themselves.
const USED_SHARDS: usize = 16;
/// Ids in one part.
const USED_SHARD_MAX: usize = 65_536;

impl UsedIds {
    pub(crate) fn new(clock: Arc<Clock>) -> UsedIds {
        let shards = (0..USED_SHARDS).map(|_| Mutex::default());
        UsedIds {
            shards: shards.collect(),
            clock,
        }
    }
}

impl gate::ports::OnceIds for UsedIds {
    fn is_first(&self, id: &Digest, until_unix_ms: u64) -> Reply<Option<bool>> {
        let shard = &self.shards[usize::from(id.0[0]) % USED_SHARDS];
        let mut used = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let now = gate::ports::Clock::now(&*self.clock).unix_ms;
        if used.len() >= USED_SHARD_MAX {
            used.retain(|_, until| *until > now);
        }
        if used.len() >= USED_SHARD_MAX {
            return Reply::Ready(Some(false));
        }
        // An id whose time is over cannot come back: its proof is too old by then.
        Reply::Ready(Some(used.insert(*id, until_unix_ms).is_none()))
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl gate::ports::Meter for Metrics {
    fn judged(&self, resource: &Resource, code: Option<&'static str>) {
        self.count_judgement(resource, code.unwrap_or("passed"));
    }

    fn ended(&self, resource: &Resource, end: CallEnd, duration_ms: u64) {
        self.count_outcome(resource, end, duration_ms);
    }

    fn found(&self, rule: &'static str, action: &'static str) {
        self.count_finding(rule, action);
    }
}

#[cfg(test)]
mod tests {
    use gate::ports::{Directory, OnceIds};
    use store::directory::{CredentialEntry, EntryState};

    use super::*;

    fn agent(name: &str) -> Arc<Agent> {
        Arc::new(Agent {
            name: Name::new(name).unwrap(),
            groups: Vec::new(),
            state: identity::AgentState::Active,
            expires_unix_ms: None,
        })
    }

    #[test]
    fn an_id_is_used_once() {
        let used = UsedIds::new(Arc::new(Clock::new()));
        let first = |id: u8| match used.is_first(&Digest([id; 32]), u64::MAX) {
            Reply::Ready(first) => first.unwrap(),
            Reply::Later(_) => panic!("it is in memory"),
        };
        assert!(first(1) && !first(1) && first(2) && first(17) && !first(17));
    }

    #[test]
    fn the_configuration_wins_and_each_change_is_another_epoch() {
        let known = Known::new(store::Agents::default());
        let keys = [Digest([1; 32]), Digest([2; 32])];
        known.configure(vec![(keys[0], agent("dev"))]);
        let mut book = DirectoryBook::default();
        let entry = |digest| CredentialEntry::new(CredentialKind::Key, digest, 0);
        for name in ["dev", "ops"] {
            let name = Name::new(name).unwrap();
            book.make_agent(&name, &[], EntryState::Active, 0).unwrap();
        }
        book.add_credential("dev", entry(Digest([3; 32])), 0)
            .unwrap();
        book.add_credential("ops", entry(keys[1]), 0).unwrap();
        book.epoch = 5;
        let epoch = known.epoch();
        known.enter(book.clone());
        assert!(known.epoch() > epoch);
        assert!(known.agent_by_key(&keys[0]).is_some() && known.agent_by_key(&keys[1]).is_some());
        assert!(known.agent_by_key(&Digest([3; 32])).is_none());
        // A certificate or a public key is no key.
        let jwk = CredentialEntry::new(CredentialKind::Jwk, Digest([4; 32]), 0);
        book.add_credential("ops", jwk, 0).unwrap();
        known.enter(book.clone());
        assert!(known.agent_by_key(&Digest([4; 32])).is_none());
        let name = identity::thumbprint(&Digest([4; 32]));
        assert_eq!(
            known.agent_by_thumbprint(&name).unwrap().name.as_str(),
            "ops"
        );
        // What was overtaken changes nothing.
        let old = DirectoryBook::default();
        known.enter(old);
        assert!(known.agent_by_key(&keys[1]).is_some());
        book.revoke("ops", 0).unwrap();
        book.epoch = 6;
        known.enter(book);
        let revoked = known.agent_by_key(&keys[1]).unwrap();
        assert_eq!(revoked.state, identity::AgentState::Revoked);
    }
}

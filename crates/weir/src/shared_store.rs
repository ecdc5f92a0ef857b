//! The store that replicas share, as the relay and the gate ask it: claims of sealed requests, ticket keys, and ids that
//! may be used once.
//!
//! What the store does not answer clearly and in time counts as no answer, and each port says what follows from that:
//! nothing here says that something is new without the store's word for it.

use std::sync::Arc;

use base::Digest;
use cache::{CacheCommands, CacheReply, CacheTls, SharedCache};
use gate::ports::Reply;
use relay::{ClaimAnswer, ClaimName, Claims, ClaimsState, Later};

use crate::config::Settings;
use crate::config::cache::Cache;
use crate::ports::Clock;

/// How long a claim is kept, in seconds: twice as long as a call may be tried again.
const CLAIM_S: &[u8] = b"120";

/// The stores of a gateway.
#[derive(Clone, Default)]
pub(crate) struct SharedStores {
    /// That of the whole gateway.
    pub all: Option<Arc<SharedCache>>,
    /// That of the relay's inbound: its own, or that of all.
    pub relay: Option<Arc<SharedCache>>,
}

impl SharedStores {
    /// Those of the settings; nothing is asked yet. The error is for the operator.
    pub(crate) fn new(settings: &Settings, clock: &Arc<Clock>) -> Result<SharedStores, String> {
        let made = |of: &Option<Cache>| of.as_ref().map(|of| store(of, clock)).transpose();
        let all = made(&settings.cache)?;
        let relay = made(&settings.relay_cache)?.or_else(|| all.clone());
        let inbound = settings.relay.inbound.as_ref();
        if let (Some(store), Some(_)) = (&relay, inbound.and_then(|side| side.fleet_key.as_ref())) {
            store.must_not_persist();
        }
        Ok(SharedStores { all, relay })
    }

    /// Each of them, once.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<SharedCache>> {
        let is_other = |store: &&Arc<SharedCache>| {
            let all = self.all.as_ref();
            all.is_none_or(|all| !Arc::ptr_eq(all, store))
        };
        self.all.iter().chain(self.relay.iter().filter(is_other))
    }
}

fn store(of: &Cache, clock: &Arc<Clock>) -> Result<Arc<SharedCache>, String> {
    let ca = of.ca.as_ref().map(|ca| ca.pem.as_bytes());
    let tls = CacheTls::new(ca).map_err(|error| format!("cache.ca: {error}"))?;
    let clock = Arc::clone(clock);
    let now = move || gate::ports::Clock::now(&*clock);
    Ok(SharedCache::new(of.url.clone(), tls, now))
}

/// The store, as the relay's inbound asks it.
pub(crate) struct StoredClaims(pub Arc<SharedCache>);

impl Claims for StoredClaims {
    fn state(&self) -> ClaimsState {
        let state = self.0.state();
        ClaimsState {
            problem: state.problem.map(|problem| problem.code()),
            refuses_until_unix_ms: state.refuses_until_unix_ms,
        }
    }

    fn claim(&self, name: ClaimName) -> Later<ClaimAnswer> {
        let key = name.key.as_bytes();
        let commands = CacheCommands::new()
            .with(&[b"MULTI"])
            .with(&[b"SETBIT", key, name.bit.to_string().as_bytes(), b"1"])
            .with(&[b"EXPIRE", key, CLAIM_S])
            .with(&[b"EXEC"]);
        let asked = self.0.ask(commands);
        Box::pin(async move {
            let Ok(answer) = asked.await else {
                return ClaimAnswer::Unknown;
            };
            match was_set(&answer.replies) {
                Some(false) => ClaimAnswer::Fresh {
                    refuses_until_unix_ms: answer.refuses_until_unix_ms,
                },
                Some(true) => ClaimAnswer::Taken,
                None => ClaimAnswer::Unknown,
            }
        })
    }

    fn place(&self, key: String, value: Vec<u8>, ms: u64) -> Later<Option<Vec<u8>>> {
        // A store that may keep it is not told.
        if self.0.state().problem.is_some() {
            self.0.warm();
            return Box::pin(std::future::ready(None));
        }
        let key = key.as_bytes();
        let ms = ms.to_string();
        let commands = CacheCommands::new()
            .with(&[b"SET", key, &value, b"NX", b"PX", ms.as_bytes()])
            .with(&[b"GET", key]);
        let asked = self.0.ask(commands);
        Box::pin(async move {
            let answer = asked.await.ok()?;
            match answer.replies.as_slice() {
                [
                    CacheReply::Simple(_) | CacheReply::Nil,
                    CacheReply::Bulk(stored),
                ] => Some(stored.clone()),
                _ => None,
            }
        })
    }
}

/// The bit that was there before, by the replies to MULTI, SETBIT, EXPIRE and EXEC; nothing where they are not exactly
/// those.
fn was_set(replies: &[CacheReply]) -> Option<bool> {
    let [
        CacheReply::Simple(begun),
        CacheReply::Simple(set),
        CacheReply::Simple(expires),
        CacheReply::Array(done),
    ] = replies
    else {
        return None;
    };
    let is_queued = begun == b"OK" && set == b"QUEUED" && expires == b"QUEUED";
    match done.as_slice() {
        // Without its end a claim would stay for ever, and fill the store.
        [CacheReply::Integer(0), CacheReply::Integer(1)] if is_queued => Some(false),
        [CacheReply::Integer(1), CacheReply::Integer(_)] if is_queued => Some(true),
        _ => None,
    }
}

/// Ids that may be used once over all processes.
pub(crate) struct SharedIds {
    store: Arc<SharedCache>,
    clock: Arc<Clock>,
}

impl SharedIds {
    pub(crate) fn new(store: Arc<SharedCache>, clock: Arc<Clock>) -> SharedIds {
        SharedIds { store, clock }
    }
}

impl gate::ports::OnceIds for SharedIds {
    /// What was used in a run of the store that it has forgotten cannot come back: nonces are of one run of the store. For
    /// the moment in which a new run may not be known everywhere, nobody can say.
    fn is_first(&self, id: &Digest, until_unix_ms: u64) -> Reply<Option<bool>> {
        let clock = Arc::clone(&self.clock);
        let now_ms = gate::ports::Clock::now(&*clock).unix_ms;
        let ms = until_unix_ms.saturating_sub(now_ms).max(1).to_string();
        let key = format!("weir:once:{id}");
        let commands =
            CacheCommands::new().with(&[b"SET", key.as_bytes(), b"1", b"NX", b"PX", ms.as_bytes()]);
        let asked = self.store.ask(commands);
        Reply::Later(Box::pin(async move {
            let answer = asked.await.ok()?;
            let now_ms = gate::ports::Clock::now(&*clock).unix_ms;
            if now_ms <= answer.refuses_until_unix_ms {
                return None;
            }
            match answer.replies.as_slice() {
                [CacheReply::Simple(ok)] if ok == b"OK" => Some(true),
                [CacheReply::Nil] => Some(false),
                _ => None,
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(set: CacheReply) -> Vec<CacheReply> {
        let simple = |text: &str| CacheReply::Simple(text.as_bytes().to_vec());
        let done = CacheReply::Array(vec![set, CacheReply::Integer(1)]);
        vec![simple("OK"), simple("QUEUED"), simple("QUEUED"), done]
    }

    #[test]
    fn only_a_clear_word_says_that_a_claim_is_fresh() {
        assert_eq!(was_set(&replies(CacheReply::Integer(0))), Some(false));
        assert_eq!(was_set(&replies(CacheReply::Integer(1))), Some(true));
        for unclear in [
            CacheReply::Integer(2),
            CacheReply::Nil,
            CacheReply::Bulk(b"0".to_vec()),
            CacheReply::Error(b"OOM".to_vec()),
        ] {
            assert_eq!(was_set(&replies(unclear)), None);
        }
        let mut all = replies(CacheReply::Integer(0));
        all[1] = CacheReply::Error(b"READONLY".to_vec());
        assert_eq!(was_set(&all), None);
        let all = replies(CacheReply::Integer(0));
        assert_eq!(was_set(&all[..3]), None);
        // No end was set.
        let mut all = replies(CacheReply::Integer(0));
        let unended = vec![CacheReply::Integer(0), CacheReply::Integer(0)];
        all[3] = CacheReply::Array(unended);
        assert_eq!(was_set(&all), None);
    }
}

//! Calls under way with servers over HTTP: which id of ours stands for which id of a client.
//!
//! Servers see ids that weir made, one for each call, so that no answer can be taken for another's. A client
//! that cancels a call names its own id, which is looked up here.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{CallId, Name};

/// Tables that the calls are spread over, so that threads seldom meet.
const SHARDS: usize = 16;

/// Whose id it is: each client has ids of its own, in each of its sessions.
#[derive(Clone, Copy, Hash)]
pub(crate) struct CallClient<'a> {
    pub(crate) agent: &'a Name,
    pub(crate) server: &'a Name,
    /// The server's session, where there is one.
    pub(crate) session: Option<&'a str>,
}

/// Calls by the hash of the client and its id: keyed with random bits, so that nobody can make two meet. As
/// many as there are requests under way, which the edge bounds.
pub(crate) struct Calls {
    shards: [Mutex<HashMap<u64, Vec<CallId>>>; SHARDS],
    spread: RandomState,
}

/// One call under way; forgotten when this is dropped.
pub(crate) struct UnderWay {
    calls: Arc<Calls>,
    key: u64,
    call: CallId,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            shards: std::array::from_fn(|_| Mutex::default()),
            spread: RandomState::new(),
        }
    }
}

impl Calls {
    fn shard(&self, key: u64) -> MutexGuard<'_, HashMap<u64, Vec<CallId>>> {
        let shard = &self.shards[usize::try_from(key % SHARDS as u64).unwrap_or_default()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that the client's request `id` goes on as `call`.
    pub(crate) fn begin(
        self: &Arc<Calls>,
        client: CallClient<'_>,
        id: &str,
        call: CallId,
    ) -> UnderWay {
        let key = self.spread.hash_one((client, id));
        self.shard(key).entry(key).or_default().push(call);
        UnderWay {
            calls: Arc::clone(self),
            key,
            call,
        }
    }

    /// The call that the client's request `id` went on as. Nothing where none is under way, or several: a
    /// client without a session may use an id twice, and nobody can say which it means.
    pub(crate) fn find(&self, client: CallClient<'_>, id: &str) -> Option<CallId> {
        let key = self.spread.hash_one((client, id));
        match self.shard(key).get(&key)?.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut shard = self.calls.shard(self.key);
        if let Some(calls) = shard.get_mut(&self.key) {
            calls.retain(|call| *call != self.call);
            if calls.is_empty() {
                shard.remove(&self.key);
            }
        }
    }
}

/// The id of a call as servers see it: a JSON string.
pub(crate) fn own_id(call: CallId) -> String {
    format!("\"w{call}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_client_alone_and_while_it_lasts() {
        let calls = Arc::new(Calls::default());
        let (dev, eve, files) = ["dev", "eve", "files"]
            .map(|name| Name::new(name).unwrap())
            .into();
        let client = |agent, session| CallClient {
            agent,
            server: &files,
            session,
        };
        let (one, two) = (CallId([1; 16]), CallId([2; 16]));
        let first = calls.begin(client(&dev, Some("s")), "7", one);
        assert_eq!(calls.find(client(&dev, Some("s")), "7"), Some(one));
        assert_eq!(calls.find(client(&eve, Some("s")), "7"), None);
        assert_eq!(calls.find(client(&dev, None), "7"), None);
        assert_eq!(calls.find(client(&dev, Some("s")), "8"), None);
        let second = calls.begin(client(&dev, Some("s")), "7", two);
        assert_eq!(calls.find(client(&dev, Some("s")), "7"), None);
        drop(first);
        assert_eq!(calls.find(client(&dev, Some("s")), "7"), Some(two));
        drop(second);
        assert_eq!(calls.find(client(&dev, Some("s")), "7"), None);
        assert!(
            calls
                .shards
                .iter()
                .all(|shard| shard.lock().unwrap().is_empty())
        );
    }
}

//! Calls under way with servers over HTTP: which id of ours stands for which id of a client.
//!
//! Servers see ids that weir made, one for each call, so that no answer can be taken for another's. A client
//! that cancels a call names its own id, which is looked up here.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{CallId, Name, Refusal, refusal};
use tokio::sync::Notify;

use crate::upstream::own::OwnWay;

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
    shards: [Mutex<HashMap<u64, Vec<OpenCall>>>; SHARDS],
    spread: RandomState,
}

/// A call in the table.
struct OpenCall {
    call: CallId,
    /// Told when its client cancels it.
    cancelled: Arc<Notify>,
    /// How it reaches its server, where that is of weir's own.
    way: Option<OwnWay>,
}

/// One call under way; forgotten when this is dropped.
pub(crate) struct UnderWay {
    calls: Arc<Calls>,
    key: u64,
    cancelled: Arc<Notify>,
}

impl UnderWay {
    /// Waits until the call's client cancels it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }

    /// Notes how the call reaches its server.
    pub(crate) fn goes(&self, way: OwnWay) {
        let mut shard = self.calls.shard(self.key);
        let mut calls = shard.get_mut(&self.key).into_iter().flatten();
        let own = calls.find(|open| Arc::ptr_eq(&open.cancelled, &self.cancelled));
        if let Some(open) = own {
            open.way = Some(way);
        }
    }
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
    fn shard(&self, key: u64) -> MutexGuard<'_, HashMap<u64, Vec<OpenCall>>> {
        let shard = &self.shards[usize::try_from(key % SHARDS as u64).unwrap_or_default()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request with this id of the client, which goes on as `call`. Clients without a session may be several,
    /// so an id of theirs may be used twice.
    ///
    /// # Errors
    /// `mcp.id_in_use` where a request of the same session with this id is under way.
    pub(crate) fn begin(
        self: &Arc<Calls>,
        client: CallClient<'_>,
        id: &str,
        call: CallId,
    ) -> Result<UnderWay, Refusal> {
        let key = self.spread.hash_one((client, id));
        if client.session.is_some() && self.shard(key).contains_key(&key) {
            return Err(in_use());
        }
        Ok(self.add(key, call))
    }

    /// Goes on with a request that an earlier stream of the same client began.
    pub(crate) fn resume(
        self: &Arc<Calls>,
        client: CallClient<'_>,
        id: &str,
        call: CallId,
    ) -> UnderWay {
        self.add(self.spread.hash_one((client, id)), call)
    }

    fn add(self: &Arc<Calls>, key: u64, call: CallId) -> UnderWay {
        let cancelled: Arc<Notify> = Arc::default();
        let open = OpenCall {
            call,
            cancelled: Arc::clone(&cancelled),
            way: None,
        };
        self.shard(key).entry(key).or_default().push(open);
        UnderWay {
            calls: Arc::clone(self),
            key,
            cancelled,
        }
    }

    /// Tells the request that its client cancelled it.
    pub(crate) fn cancel(&self, client: CallClient<'_>, id: &str) {
        let key = self.spread.hash_one((client, id));
        for open in self.shard(key).get(&key).into_iter().flatten() {
            open.cancelled.notify_one();
        }
    }

    /// The call that the client's request `id` went on as. Nothing where none is under way, or several: a
    /// client without a session may use an id twice, and nobody can say which it means.
    pub(crate) fn find(&self, client: CallClient<'_>, id: &str) -> Option<CallId> {
        self.way(client, id).map(|(call, _)| call)
    }

    /// The same, with how it reaches its server, where that is of weir's own.
    pub(crate) fn way(&self, client: CallClient<'_>, id: &str) -> Option<(CallId, Option<OwnWay>)> {
        let key = self.spread.hash_one((client, id));
        match self.shard(key).get(&key)?.as_slice() {
            [one] => Some((one.call, one.way.clone())),
            _ => None,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut shard = self.calls.shard(self.key);
        if let Some(calls) = shard.get_mut(&self.key) {
            calls.retain(|open| !Arc::ptr_eq(&open.cancelled, &self.cancelled));
            if calls.is_empty() {
                shard.remove(&self.key);
            }
        }
    }
}

/// What a request is told whose id another one has.
pub(crate) fn in_use() -> Refusal {
    Refusal::new(refusal::ID_IN_USE, "a call with this id is under way")
}

/// The id of a call as servers see it: a JSON string.
pub(crate) fn own_id(call: CallId) -> String {
    format!("\"w{call}\"")
}

/// The token for progress of a call, as servers see it: a number, in which nobody sees a secret.
pub(crate) fn own_token(call: CallId) -> String {
    let [.., a, b, c, d] = call.0;
    u32::from_be_bytes([a, b, c, d]).to_string()
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
        let first = calls.begin(client(&dev, Some("s")), "7", one).unwrap();
        assert_eq!(calls.find(client(&dev, Some("s")), "7"), Some(one));
        assert_eq!(calls.find(client(&eve, Some("s")), "7"), None);
        assert_eq!(calls.find(client(&dev, None), "7"), None);
        assert_eq!(calls.find(client(&dev, Some("s")), "8"), None);
        // An id is used once at a time in a session, and as often as you like without one.
        let again = calls.begin(client(&dev, Some("s")), "7", two).err();
        assert_eq!(again.map(|no| no.code.name), Some("mcp.id_in_use"));
        let bare = [one, two].map(|call| calls.begin(client(&dev, None), "7", call).unwrap());
        assert_eq!(calls.find(client(&dev, None), "7"), None);
        drop(bare);
        let second = calls.resume(client(&dev, Some("s")), "7", two);
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

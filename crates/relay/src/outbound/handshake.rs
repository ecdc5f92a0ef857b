//! The handshake of an outbound with a peer, and the look at its keys before, where only a pin is configured.
//!
//! One is under way for each peer at a time, whatever thread asks. It is the gateway's own traffic: judged and
//! recorded as the agent `weir`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::limit;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gate::GrantedCall;
use net::Lease;
use net::SendError;
use net::h1::{Error, Framing};
use seal::head::REPLY_BYTES;
use seal::{Public, Session, initiate};

use super::desk::Desk;
use super::link::{Door, Link};
use crate::grants::Asking;
use crate::{outer, random};

/// How long one step of a handshake may take to connect, in milliseconds.
const DIAL_MS: u64 = limit::DIAL_MS_MAX;
/// Handshakes that are tried while the peer has no room, or is not there yet: one begins to listen 2.5 seconds after its
/// start.
const SHAKES_MAX: u32 = 13;
/// The wait between them, in milliseconds.
const SHAKE_WAIT_MS: u64 = 250;

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoSession {
    /// The gate says no.
    Refused(&'static str),
    /// No connection.
    Unreachable(String),
    /// The connection broke, or what came is not HTTP.
    Broken(Error),
    /// The peer, or something before it, answered with this status.
    Status(u16),
    /// The reply does not open, or is not one.
    Seal(seal::Error),
    /// The peer has none of the pinned keys.
    NoKey,
    /// The kernel gives no random bytes.
    Random,
}

impl NoSession {
    /// Whether it is what an inbound looks like that has just been started, from here or from behind a proxy.
    fn may_pass(&self, is_first: bool) -> bool {
        match self {
            NoSession::Status(503) => true,
            NoSession::Status(502 | 504) => is_first,
            NoSession::Unreachable(_) | NoSession::Broken(_) => is_first,
            _ => false,
        }
    }

    /// Whether trying again at once cannot help.
    pub(super) fn is_final(&self) -> bool {
        !matches!(self, NoSession::Unreachable(_) | NoSession::Broken(_))
    }
}

impl std::fmt::Display for NoSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoSession::Refused(code) => write!(f, "the gate refused it: {code}"),
            NoSession::Unreachable(why) => write!(f, "the peer cannot be reached: {why}"),
            NoSession::Broken(error) => write!(f, "the connection to the peer broke: {error}"),
            NoSession::Status(status) => {
                write!(f, "the answer to the handshake is a plain {status}")
            }
            NoSession::Seal(error) => write!(f, "the reply is not good: {error}"),
            NoSession::NoKey => f.write_str("the peer has none of the pinned keys"),
            NoSession::Random => f.write_str("the kernel gives no random bytes"),
        }
    }
}

impl From<Error> for NoSession {
    fn from(error: Error) -> NoSession {
        NoSession::Broken(error)
    }
}

impl From<seal::Error> for NoSession {
    fn from(error: seal::Error) -> NoSession {
        NoSession::Seal(error)
    }
}

impl From<SendError> for NoSession {
    fn from(error: SendError) -> NoSession {
        match error {
            SendError::Refused(refusal) => NoSession::Refused(refusal.code.name),
            other => NoSession::Unreachable(other.to_string()),
        }
    }
}

impl Desk {
    /// The session with a peer, after a handshake if there is none, or if `beside` is the one that there is.
    pub(super) async fn session(
        &self,
        link: &Link,
        beside: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, NoSession> {
        let fits = |session: &Arc<Session>| beside.is_none_or(|old| !Arc::ptr_eq(old, session));
        if let Some(session) = link.usable(self.now()).filter(fits) {
            return Ok(session);
        }
        let _alone = link.shaking.lock().await;
        if let Some(session) = link.usable(self.now()).filter(fits) {
            return Ok(session);
        }
        // Those who waited behind a failure share it: they do not all try the same again.
        if let Some(why) = link.failed(self.now()) {
            return Err(why);
        }
        // Who never answered may have been started with us. Who did is gone, and that is told at once.
        let is_first = link.session().is_none();
        let mut made = self.shake(link).await;
        for _ in 1..SHAKES_MAX {
            if !made.as_ref().is_err_and(|why| why.may_pass(is_first)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(SHAKE_WAIT_MS)).await;
            made = self.shake(link).await;
        }
        match &made {
            Ok(session) => {
                self.counters.handshakes.one();
                link.set_session(Arc::clone(session));
            }
            Err(why) => {
                self.counters.handshakes_failed.one();
                link.fail(why.clone(), self.now());
                tracing::warn!(target: "relay", peer = %link.name, %why, "no session");
            }
        }
        made
    }

    async fn shake(&self, link: &Link) -> Result<Arc<Session>, NoSession> {
        let grant = self.own_grant(link, "shr/1 handshake").await?;
        let mut last = NoSession::NoKey;
        for door in &link.doors {
            let outbound = match door.outbound() {
                Some(outbound) => outbound,
                None => match self.fetch(link, door, &grant).await {
                    Ok(outbound) => outbound,
                    Err(why) => {
                        last = why;
                        continue;
                    }
                },
            };
            match self.knock(link, outbound, &grant).await {
                // 421: only another pinned key.
                Err(NoSession::Status(421)) => last = NoSession::NoKey,
                done => return done,
            }
        }
        Err(last)
    }

    /// One init, one reply.
    async fn knock(
        &self,
        link: &Link,
        outbound: Arc<seal::Outbound>,
        grant: &GrantedCall,
    ) -> Result<Arc<Session>, NoSession> {
        let drawn = random::draw().map_err(|_| NoSession::Random)?;
        let mut wire = self.own_wire(grant).await?;
        let pending = initiate(outbound, self.now(), drawn)?;
        let init = pending.init();
        let length = Framing::Length(init.len() as u64);
        wire.request_as(&link.post, length)?;
        wire.body(init).await?;
        final_answer(&mut wire).await?;
        let reply = wire.fill(REPLY_BYTES + 1).await?;
        let session = pending.finish(reply, self.now())?;
        wire.consume(REPLY_BYTES);
        Ok(Arc::new(session))
    }

    /// Looks for the key of a pin among those that the peer lists.
    async fn fetch(
        &self,
        link: &Link,
        door: &Door,
        grant: &GrantedCall,
    ) -> Result<Arc<seal::Outbound>, NoSession> {
        let keys = self.keys(link, grant).await?;
        let key = keys.iter().find(|key| key.pin() == door.pin);
        let key = key.ok_or(NoSession::NoKey)?;
        link.open(door, key).map_err(|_| NoSession::NoKey)
    }

    /// The keys that the peer lists: nothing to be believed but what a pin confirms.
    async fn keys(&self, link: &Link, grant: &GrantedCall) -> Result<Vec<Public>, NoSession> {
        let mut wire = self.own_wire(grant).await?;
        wire.request(b"GET", &link.keys_path, &link.host, [], Framing::None)?;
        final_answer(&mut wire).await?;
        let list = wire.fill(outer::OUTER_BYTES_MAX).await?;
        Ok(read_keys(list))
    }

    async fn own_grant(&self, link: &Link, method: &'static str) -> Result<GrantedCall, NoSession> {
        let asking = Asking {
            caller: None,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            method,
            target: &link.name,
        };
        let grant = self.current().grants.once(asking, self.now()).await;
        grant.map_err(|refusal| NoSession::Refused(refusal.code.name))
    }

    async fn own_wire(&self, grant: &GrantedCall) -> Result<Lease, NoSession> {
        Ok(self.upstreams.take(grant.permit(), DIAL_MS).await?)
    }
}

/// Sends what was written, and waits for an answer of status 200.
async fn final_answer(wire: &mut Lease) -> Result<(), NoSession> {
    wire.send().await?;
    while wire.answer().await?.is_informational() {}
    match wire.answered().status() {
        200 => Ok(()),
        status => Err(NoSession::Status(status)),
    }
}

/// Reads `{"keys":[{"pk":"…base64url…"}]}`. What is no key is passed over.
fn read_keys(list: &[u8]) -> Vec<Public> {
    let Ok(list) = serde_json::from_slice::<serde_json::Value>(list) else {
        return Vec::new();
    };
    let keys = list["keys"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let key = |entry: &serde_json::Value| {
        let bytes = URL_SAFE_NO_PAD.decode(entry["pk"].as_str()?).ok()?;
        Public::from_bytes(&bytes).ok()
    };
    keys.iter()
        .take(seal::handshake::IDENTITIES_MAX)
        .filter_map(key)
        .collect()
}

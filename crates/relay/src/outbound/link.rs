//! One peer of an outbound: its keys, and the session that all threads share.
//!
//! A session is renewed beside the old one, which messages under way keep. A plain answer can ask for a new one, once
//! a second at most, and can never end one: anybody on the way could have written it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Lock, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use base::{Name, Now};
use net::Endpoint;
use net::Scheme;
use net::h1::RequestLines;
use seal::keytext::PeerKey;
use seal::{JoinToken, Pin, Psk, Public, Session};
use tokio::sync::Mutex;

use super::handshake::NoSession;
use crate::outer;
use crate::random;
use crate::settings::{PEER_KEYS_MAX, Peer, Problem};

/// Between two handshakes that plain answers asked for, in milliseconds.
const FORCED_MS: u64 = 1_000;
/// How long before it expires a session is used no more, in milliseconds.
const ON_ITS_WAY_MS: u64 = 200;
/// For how long a handshake that failed is not tried again, in milliseconds.
const FAILED_MS: u64 = 200;

/// One key of the peer: at hand, or known by its pin until it is fetched.
pub(super) struct Door {
    pub(super) pin: Pin,
    outbound: OnceLock<Arc<seal::Outbound>>,
}

/// A peer.
pub(crate) struct Link {
    pub(super) name: Name,
    pub(super) host: Box<[u8]>,
    /// The head of every message to it.
    pub(super) post: RequestLines,
    pub(super) keys_path: Box<[u8]>,
    pub(super) doors: Vec<Door>,
    pub(super) padding: bool,
    /// Held by the one handshake that is under way.
    pub(super) shaking: Mutex<()>,
    peer: Peer,
    session: ArcSwapOption<Session>,
    forced_mono_ms: AtomicU64,
    failure: Lock<Option<(NoSession, u64)>>,
    jitter: u8,
}

impl Link {
    /// Checks a peer. A session of `before` is kept if it is with one of the same keys, by the same key of ours.
    pub(super) fn new(peer: Peer, before: Option<&Link>) -> Result<Link, Problem> {
        if !(1..=PEER_KEYS_MAX).contains(&peer.keys.len()) {
            return Err(Problem::PeerKeys(peer.name));
        }
        let mut jitter = [0];
        random::fill(&mut jitter).map_err(|_| Problem::Random)?;
        let prefix = peer.endpoint.path.trim_end_matches('/').as_bytes();
        let (host, path) = (host(&peer.endpoint), [prefix, outer::PATH].concat());
        let post = RequestLines::new(b"POST", &path, &host, outer::FIELDS);
        let link = Link {
            name: peer.name.clone(),
            host,
            post: post.map_err(|_| Problem::PeerPath(peer.name.clone()))?,
            keys_path: [prefix, outer::KEYS_PATH].concat().into(),
            doors: peer.keys.iter().map(Door::new).collect(),
            padding: peer.padding,
            shaking: Mutex::new(()),
            session: ArcSwapOption::empty(),
            forced_mono_ms: AtomicU64::new(0),
            failure: Lock::new(None),
            jitter: jitter[0],
            peer,
        };
        for (door, key) in link.doors.iter().zip(&link.peer.keys) {
            if let PeerKey::Public(public) = key {
                link.open(door, public)?;
            }
        }
        // What the configuration says is checked now, also where the key is fetched later.
        link.secrets()?;
        if let Some(before) = before {
            link.session.store(
                before
                    .session()
                    .filter(|session| link.may_keep(session, before)),
            );
        }
        Ok(link)
    }

    fn may_keep(&self, session: &Session, before: &Link) -> bool {
        let own = |link: &Link| link.peer.identity.public().peer_id();
        own(self) == own(before)
            && self.peer.suite == session.suite()
            && self.doors.iter().any(|door| door.pin == session.inbound())
    }

    fn secrets(&self) -> Result<(Vec<Psk>, Option<JoinToken>), Problem> {
        let psks = self.peer.psks.iter().map(|psk| Psk::new(*psk.bytes()));
        let token = self.peer.token.as_ref();
        let token = token.map(|token| JoinToken::new(&token.0)).transpose()?;
        Ok((psks.collect::<Result<_, _>>()?, token))
    }

    /// Takes the key of a door. Whoever has it has compared it with the pin.
    pub(super) fn open(
        &self,
        door: &Door,
        public: &Public,
    ) -> Result<Arc<seal::Outbound>, Problem> {
        let (psks, token) = self.secrets()?;
        if *public == *self.peer.identity.public() {
            return Err(seal::Error::Own.into());
        }
        let outbound = Arc::new(seal::Outbound {
            identity: Arc::clone(&self.peer.identity),
            inbound: public.clone(),
            suite: self.peer.suite,
            token,
            psks,
        });
        Ok(Arc::clone(door.outbound.get_or_init(|| outbound)))
    }

    /// The session to seal with now, if there is one that does not expire while a message is on its way.
    pub(super) fn usable(&self, now: Now) -> Option<Arc<Session>> {
        let unix_ms = now.unix_ms.saturating_add(ON_ITS_WAY_MS);
        let then = Now { unix_ms, ..now };
        self.session().filter(|session| !session.is_expired(then))
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.session.load_full()
    }

    pub(super) fn set_session(&self, session: Arc<Session>) {
        self.session.store(Some(session));
    }

    /// Whether it is time for a new session beside this one.
    pub(super) fn is_old(&self, now: Now) -> bool {
        let session = self.session.load();
        session
            .as_ref()
            .is_some_and(|session| session.is_old(now, self.jitter))
    }

    /// Why the last handshake failed, if that was a moment ago.
    pub(super) fn failed(&self, now: Now) -> Option<NoSession> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let (why, at) = failure.as_ref()?;
        (now.mono_ms.saturating_sub(*at) < FAILED_MS).then(|| why.clone())
    }

    pub(super) fn fail(&self, why: NoSession, now: Now) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some((why, now.mono_ms));
    }

    /// Whether a plain answer may ask for a handshake now. It counts as one that did.
    pub(super) fn may_force(&self, now: Now) -> bool {
        let allowed = |last: u64| {
            let due = last == 0 || now.mono_ms.saturating_sub(last) >= FORCED_MS;
            due.then_some(now.mono_ms.max(1))
        };
        self.forced_mono_ms
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, allowed)
            .is_ok()
    }
}

impl Door {
    fn new(key: &PeerKey) -> Door {
        Door {
            pin: key.pin(),
            outbound: OnceLock::new(),
        }
    }

    pub(super) fn outbound(&self) -> Option<Arc<seal::Outbound>> {
        self.outbound.get().cloned()
    }
}

/// The Host field for an endpoint.
pub(crate) fn host(endpoint: &Endpoint) -> Box<[u8]> {
    let Endpoint {
        scheme, host, port, ..
    } = endpoint;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let host = match (scheme, port) {
        (Scheme::Http, 80) | (Scheme::Https, 443) => host,
        _ => format!("{host}:{port}"),
    };
    host.into_bytes().into()
}

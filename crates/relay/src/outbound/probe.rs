//! What an operator wants to know of a peer: can it be reached, has it the pinned key, what does its clock say.

use std::rc::Rc;
use std::sync::Arc;

use base::Name;
use gate::Passed;
use net::h1::{Thread, Version, Wires};
use seal::{Mode, Pin};

use super::desk::Desk;
use super::{NoSession, Outbound};

/// What was found. A later step is absent where an earlier one failed.
#[derive(Debug)]
pub struct Probe {
    /// The version of HTTP that the last hop before us spoke, and the pins of the keys that the peer lists. They are
    /// not sealed: only their being among the configured ones means something.
    pub keys: Result<(Version, Vec<Pin>), NoSession>,
    /// The pins that are configured.
    pub pinned: Vec<Pin>,
    /// What a handshake brought.
    pub session: Option<Result<Found, NoSession>>,
}

/// A session that a handshake brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key that answered.
    pub pin: Pin,
    pub suite: &'static str,
    /// Whether the peer promises `strict`.
    pub is_strict: bool,
    /// How far the peer's clock is before ours, in milliseconds; behind where negative.
    pub clock_ms: i64,
    /// How long the handshake took, in milliseconds.
    pub handshake_ms: u64,
    /// The longest content that the peer takes, in bytes.
    pub longest_bytes: u64,
    /// The key that it announces as its next.
    pub next_pin: Option<Pin>,
}

impl Outbound {
    /// Looks at a peer by a new handshake. Must run inside a `LocalSet`. Nothing if there is no such peer.
    pub async fn probe(
        self: &Arc<Self>,
        peer: &Name,
        wires: impl FnOnce(Rc<Thread>) -> Wires<Passed>,
    ) -> Option<Probe> {
        let desk = Desk::new(self, wires(Thread::new(self.upstream.clone())));
        let current = desk.current();
        let link = current.live.links.iter().find(|link| link.name == *peer)?;
        let keys = desk.list(link).await;
        let pinned = link.doors.iter().map(|door| door.pin).collect();
        let session = match keys {
            Ok(_) => {
                let began = desk.now();
                let old = link.session();
                let session = desk.session(link, old.as_ref()).await;
                Some(session.map(|session| {
                    let now = desk.now();
                    Found {
                        pin: session.inbound(),
                        suite: session.suite().name(),
                        is_strict: session.mode() == Mode::Strict,
                        clock_ms: session
                            .server_unix_ms(now)
                            .wrapping_sub(now.unix_ms)
                            .cast_signed(),
                        handshake_ms: now.mono_ms.saturating_sub(began.mono_ms),
                        longest_bytes: session.longest_bytes(),
                        next_pin: session.next_pin(),
                    }
                }))
            }
            Err(_) => None,
        };
        Some(Probe {
            keys,
            pinned,
            session,
        })
    }
}

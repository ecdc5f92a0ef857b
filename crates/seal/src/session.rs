//! A session as the outbound has it: what the reply gave, and the clock of the other side.
//!
//! It exists so that all threads of an outbound share one handshake. It refuses to be copied, and it
//! believes times only from sealed messages whose round trip was short.

use std::sync::atomic::{AtomicI64, Ordering};

use base::Now;

use crate::head::TICKET_BYTES;
use crate::key::{Pin, Sid};
use crate::schedule::{Secret, Way, way_secret};
use crate::suite::Suite;
use crate::ticket::Mode;

pub use crate::ticket::SESSION_MS;

/// A round trip as long as this, in milliseconds, says nothing about the other side's clock.
pub const ROUND_TRIP_MS: u64 = 10_000;
/// How long a stream may go on after its session expired, in milliseconds.
pub const STREAM_AFTER_MS: u64 = 3_600_000;

/// What a reply said.
pub(crate) struct Terms {
    pub(crate) inbound: Pin,
    pub(crate) sid: Sid,
    pub(crate) suite: Suite,
    pub(crate) mode: Mode,
    pub(crate) ticket: [u8; TICKET_BYTES],
    pub(crate) server_unix_ms: u64,
    pub(crate) expires_unix_ms: u64,
    pub(crate) longest_bytes: u64,
    pub(crate) next_pin: Option<Pin>,
    pub(crate) offset_ms: Option<i64>,
}

/// A session with an inbound. Shared by all threads; each seals by senders of its own.
pub struct Session {
    terms: Terms,
    secret: Secret,
    offset_ms: AtomicI64,
}

impl Session {
    pub(crate) fn new(terms: Terms, secret: Secret) -> Session {
        let offset_ms = AtomicI64::new(terms.offset_ms.unwrap_or(0));
        Session {
            terms,
            secret,
            offset_ms,
        }
    }

    pub fn sid(&self) -> Sid {
        self.terms.sid
    }

    /// The key of the inbound that answered.
    pub fn inbound(&self) -> Pin {
        self.terms.inbound
    }

    pub fn suite(&self) -> Suite {
        self.terms.suite
    }

    /// What the inbound promises about replays: it decides what may be sent again.
    pub fn mode(&self) -> Mode {
        self.terms.mode
    }

    /// The longest message that the inbound takes, in bytes of plaintext.
    pub fn longest_bytes(&self) -> u64 {
        self.terms.longest_bytes
    }

    /// The key that the inbound will have next, if it said so. It is a message to the operator, not a pin.
    pub fn next_pin(&self) -> Option<Pin> {
        self.terms.next_pin
    }

    pub(crate) fn ticket(&self) -> &[u8; TICKET_BYTES] {
        &self.terms.ticket
    }

    pub(crate) fn way(&self, way: Way) -> Secret {
        way_secret(&self.secret, self.terms.suite, self.terms.sid, way)
    }

    /// The inbound's time, as well as we know it, in Unix milliseconds. Never ahead by our doing: the
    /// inbound read its clock before the reply travelled.
    pub fn server_unix_ms(&self, now: Now) -> u64 {
        now.unix_ms
            .saturating_add_signed(self.offset_ms.load(Ordering::Relaxed))
    }

    /// Whether the inbound would refuse the ticket now.
    pub fn is_expired(&self, now: Now) -> bool {
        self.server_unix_ms(now) >= self.terms.expires_unix_ms
    }

    /// Whether it is time for a new session beside this one: after 75 to 85 % of its life, by a random
    /// byte that the caller draws once, so that a fleet does not renew as one.
    pub fn is_old(&self, now: Now, jitter: u8) -> bool {
        let life_ms = self.terms.expires_unix_ms - self.terms.server_unix_ms;
        let share = 7_500 + u64::from(jitter) * 1_000 / 255;
        let old_ms = self
            .terms
            .server_unix_ms
            .saturating_add(life_ms * share / 10_000);
        self.server_unix_ms(now) >= old_ms
    }

    /// Sets our idea of the inbound's clock by a sealed answer to a message that was sent at `sent`. A
    /// round trip of [`ROUND_TRIP_MS`] or more changes nothing. Returns whether it was believed.
    pub fn set_clock(&self, server_unix_ms: u64, sent: Now, received: Now) -> bool {
        let offset = offset_ms(server_unix_ms, sent, received);
        if let Some(offset) = offset {
            self.offset_ms.store(offset, Ordering::Relaxed);
        }
        offset.is_some()
    }
}

/// Server time less time of receipt, if the round trip was short by the monotonic clock.
pub(crate) fn offset_ms(server_unix_ms: u64, sent: Now, received: Now) -> Option<i64> {
    let round_trip_ms = received.mono_ms.saturating_sub(sent.mono_ms);
    if round_trip_ms >= ROUND_TRIP_MS {
        return None;
    }
    server_unix_ms.checked_signed_diff(received.unix_ms)
}

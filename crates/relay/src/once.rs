//! What an inbound asks of the store that all its instances share: that a request runs once, whoever takes it.
//!
//! The protocol's section "Replay" says what is claimed and when; here are the name of a claim, its times, and the port
//! by which the store is asked. A claim that nobody answers for counts as one that was taken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base::Now;
use seal::replay::{Claim, FUTURE_MS_MAX};
use seal::{Attempt, Kid};

/// How long after its first attempt a call may still be claimed, in milliseconds.
const CLAIM_MS_MAX: u64 = 60_000;
/// Claims that one key of the store holds, as a power of two.
const BITS: u32 = 12;

/// The one bit of the store that a call takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName {
    pub key: String,
    pub bit: u32,
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// Nobody had it. Calls from this time or before, in Unix milliseconds, may be known to nobody all the same.
    Fresh {
        refuses_until_unix_ms: u64,
    },
    Taken,
    /// Nobody knows.
    Unknown,
}

/// How the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimsState {
    /// The code of what is wrong with it.
    pub problem: Option<&'static str>,
    /// Calls from this time or before, in Unix milliseconds, are refused: the store may have forgotten them.
    pub refuses_until_unix_ms: u64,
}

/// What a port answers later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The store that all instances of an inbound share. Each answer has a deadline; a later one is [`ClaimAnswer::Unknown`].
pub trait Claims: Send + Sync {
    fn state(&self) -> ClaimsState;

    /// Takes a bit, and says whether it was free.
    fn claim(&self, name: ClaimName) -> Later<ClaimAnswer>;

    /// Puts a value in a place that is empty, for so many milliseconds, and gives what stands there then. Nothing where
    /// nobody knows.
    fn place(&self, key: String, value: Vec<u8>, ms: u64) -> Later<Option<Vec<u8>>>;
}

/// The claim of one call that may run once.
pub(crate) struct Once {
    claims: Arc<dyn Claims>,
    name: ClaimName,
    first_unix_ms: u64,
}

/// Why a call may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOnce {
    /// Another instance has let it through, or nobody knows whether one has.
    Taken,
    Unknown,
    /// It is too old, too new, or from before the store was started.
    Stale,
}

impl Once {
    pub(crate) fn new(claims: &Arc<dyn Claims>, kid: Kid, claim: &Claim) -> Once {
        let first = claim.retry_of.unwrap_or(claim.attempt);
        Once {
            claims: Arc::clone(claims),
            name: name(kid, claim, &first),
            first_unix_ms: first.ts_unix_ms,
        }
    }

    /// Whether it can be claimed at all now.
    pub(crate) fn is_good(&self, now: Now) -> bool {
        is_good(
            self.first_unix_ms,
            self.claims.state().refuses_until_unix_ms,
            now,
        )
    }

    /// Claims it, and looks at the time again once the answer is here.
    pub(crate) async fn claim(&self, now: impl Fn() -> Now) -> Result<(), NotOnce> {
        match self.claims.claim(self.name.clone()).await {
            ClaimAnswer::Taken => Err(NotOnce::Taken),
            ClaimAnswer::Unknown => Err(NotOnce::Unknown),
            ClaimAnswer::Fresh {
                refuses_until_unix_ms,
            } => match is_good(self.first_unix_ms, refuses_until_unix_ms, now()) {
                true => Ok(()),
                false => Err(NotOnce::Stale),
            },
        }
    }
}

fn is_good(first_unix_ms: u64, refuses_until_unix_ms: u64, now: Now) -> bool {
    first_unix_ms <= now.unix_ms.saturating_add(FUTURE_MS_MAX)
        && now.unix_ms <= first_unix_ms.saturating_add(CLAIM_MS_MAX)
        && first_unix_ms > refuses_until_unix_ms
}

/// The name begins with the peer of the ticket, so nobody takes a claim of another.
fn name(kid: Kid, claim: &Claim, first: &Attempt) -> ClaimName {
    let (peer, sender) = (hex(&claim.peer_id.0), hex(&first.sender.0));
    ClaimName {
        key: format!(
            "shr1:{}:{peer}:{sender}:{:x}",
            hex(&kid.0),
            first.ctr >> BITS
        ),
        bit: (first.ctr & ((1 << BITS) - 1)) as u32,
    }
}

/// Where the ticket key that begins then lies in the store, for the inbound of this key.
pub fn ticket_place(kid: Kid, begins_unix_ms: u64) -> String {
    format!("shr1:tek:{}:{begins_unix_ms}", hex(&kid.0))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use seal::{PeerId, SenderId, Sid};

    use super::*;

    fn claim(ctr: u64, retry_of: Option<u64>) -> Claim {
        let attempt = |ctr| Attempt {
            sender: SenderId([2; 16]),
            ctr,
            ts_unix_ms: 1_000_000,
        };
        Claim {
            peer_id: PeerId([1; 32]),
            sid: Sid([3; 16]),
            attempt: attempt(ctr),
            retry_of: retry_of.map(attempt),
        }
    }

    fn named(ctr: u64, retry_of: Option<u64>) -> ClaimName {
        let claim = claim(ctr, retry_of);
        let first = claim.retry_of.unwrap_or(claim.attempt);
        name(Kid([9; 8]), &claim, &first)
    }

    #[test]
    fn a_retry_takes_the_bit_of_its_first_attempt() {
        let first = named(4097, None);
        let (kid, peer, sender) = ("09".repeat(8), "01".repeat(32), "02".repeat(16));
        assert_eq!(first.key, format!("shr1:{kid}:{peer}:{sender}:1"));
        assert_eq!(first.bit, 1);
        assert_eq!(named(9000, Some(4097)), first);
        assert_ne!(named(9000, None), first);
        assert_eq!(named(u64::MAX, None).bit, 4095);
    }

    #[test]
    fn the_times_of_a_claim() {
        let at = |unix_ms| Now {
            unix_ms,
            mono_ms: 0,
        };
        let good = |now, until| is_good(1_000_000, until, at(now));
        assert!(good(998_000, 0) && !good(997_999, 0));
        assert!(good(1_060_000, 0) && !good(1_060_001, 0));
        assert!(good(1_000_000, 999_999) && !good(1_000_000, 1_000_000));
    }
}

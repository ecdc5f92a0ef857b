//! The replay window: each sealed request is let through once by one instance.
//!
//! It exists because whoever captured a sealed request can send it again, and nothing in the seal forbids that. It
//! keeps one window of 16,384 counters for each (peer, sender), in one table that all threads of the instance share.
//! It refuses what is too old or from the future, what an earlier run of this instance may have seen, and, rather than
//! forget a window that still matters, senders for which there is no room. It promises nothing about other instances:
//! a captured request can run once more on each of them, while its time is good.
//!
//! **Memory.** A window is 2,048 bytes of bits, and about 210 bytes of table at the worst moment of a map's growth:
//! 16,384 windows, the default, are at most 40 MiB, and take none of it before senders come. The count of senders of a
//! session adds less than 0.2 KiB for each session with a window. A claim allocates only for a sender's first message.
//!
//! **Cost.** See `examples/cost_relay_text.rs`: one hash, one lock that two threads seldom want at once, one bit.
//!
//! Source: the section "Replay" of `docs/relay-protocol.md`.

mod bits;
mod key;
mod table;
mod times;

#[cfg(test)]
mod tests;

use std::fmt;

use base::Now;

use crate::{Attempt, Code, Mode, Opened, PeerId, Sid};

use self::table::{Taken, Windows};
use self::times::Times;

/// Counters that one window holds.
pub const WINDOW_BITS: u64 = 16_384;
/// How old a message may be, in milliseconds.
pub const PAST_MS_MAX: u64 = 30_000;
/// How far ahead of our clock a message may be, in milliseconds.
pub const FUTURE_MS_MAX: u64 = 2_000;
/// How long a window is kept after its last message, in milliseconds: longer than any message stays good.
pub const KEPT_MS: u64 = 35_000;
/// What an earlier run of this instance may have let through: times up to this long after the start, in milliseconds.
pub const START_MS: u64 = 2_000;
/// Senders of one session with a window at once.
pub const SESSION_SENDERS_MAX: u32 = 4_096;
/// Windows of the whole instance, unless the settings say otherwise.
pub const WINDOWS_DEFAULT: usize = 16_384;

/// A request whose first chunk has been opened. Nothing else may be claimed: before that, none of it is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The peer of its ticket.
    pub peer_id: PeerId,
    /// The session of its ticket.
    pub sid: Sid,
    pub attempt: Attempt,
    /// The first attempt of the same call, in a request with retry-of.
    pub retry_of: Option<Attempt>,
}

impl Claim {
    /// What an opened request claims.
    ///
    /// # Errors
    /// [`Refused::Malformed`] if it says that it is a retry, and not of what.
    pub fn of(opened: &Opened) -> Result<Claim, Refused> {
        Ok(Claim {
            peer_id: opened.peer_id(),
            sid: opened.sid(),
            attempt: opened.attempt(),
            retry_of: opened.retry_of().map_err(|_| Refused::Malformed)?,
        })
    }
}

/// Proof that this request was let through, here and now, for the first time. Only [`Replay::claim`] makes one.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was claimed cannot be claimed again"]
pub struct Claimed(());

/// Why a request is not let through. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// It, or the first attempt that it names, has been let through, or is too far behind its sender.
    Claimed,
    /// It, or the first attempt that it names, is too old, from the future, or from before this run of the instance.
    Stale,
    /// There is no room for another sender, of all or of this session.
    Overload,
    /// The first attempt that it names is itself, or one that its sender had not made yet.
    Malformed,
}

impl Refused {
    /// What the other weir is told, sealed.
    pub fn code(self) -> Code {
        match self {
            Refused::Claimed => Code::Claimed,
            Refused::Stale => Code::Stale,
            Refused::Overload => Code::Overload,
            Refused::Malformed => Code::Malformed,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Claimed => "the request, or its first attempt, has been let through before",
            Refused::Stale => "the request's time, or its first attempt's, is out of bounds",
            Refused::Overload => "there is no room for another sender",
            Refused::Malformed => "the request names a first attempt that is not before it",
        })
    }
}

impl std::error::Error for Refused {}

/// All windows of one instance. Threads share one, behind an `Arc`.
pub struct Replay {
    times: Times,
    windows: Windows,
}

impl Replay {
    /// Windows for an instance that starts now, in mode `local`: exact on this instance, unknown to others.
    /// `hash_key` is 16 random bytes: with them peers cannot choose senders that fall on one place of the table.
    pub fn local(windows_max: usize, hash_key: [u8; 16], now: Now) -> Replay {
        Replay {
            times: Times::new(now),
            windows: Windows::new(windows_max, hash_key),
        }
    }

    /// What it promises. A session whose ticket promises more is not served with it alone: `strict` claims here as
    /// well, and then in the store of all instances.
    pub fn mode(&self) -> Mode {
        Mode::Local
    }

    /// The Unix time from which on the instance lets messages through and may call itself ready, in milliseconds: those
    /// that are made now are by then late enough not to be from an earlier run.
    pub fn ready_unix_ms(&self) -> u64 {
        self.times.ready_unix_ms()
    }

    /// Lets a request through, once.
    ///
    /// A retry takes two places, its own and that of the first attempt, both or neither, at one moment for all
    /// threads. If only one of them is free the answer is [`Refused::Claimed`] and neither is taken. The first
    /// attempt's time is held to the same bounds as the retry's own: so its window, if it was let through, is still
    /// there, and the refused retry stays refused for as long as its times are good.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn claim(&self, claim: &Claim, now: Now) -> Result<Claimed, Refused> {
        let own = &claim.attempt;
        if claim
            .retry_of
            .is_some_and(|first| first.sender == own.sender && first.ctr >= own.ctr)
        {
            return Err(Refused::Malformed);
        }
        match self.windows.take(claim, now, &self.times) {
            Taken::New => Ok(Claimed(())),
            Taken::Before => Err(Refused::Claimed),
            Taken::Stale => Err(Refused::Stale),
            Taken::NoRoom => Err(Refused::Overload),
        }
    }

    /// Forgets windows that matter no more. Room is made by itself when it is needed; calling this now and then gives
    /// memory back.
    pub fn sweep(&self, now: Now) {
        self.windows.sweep(now, &self.times);
    }

    /// Windows that are kept now, for metrics.
    pub fn windows(&self) -> usize {
        self.windows.count()
    }
}

//! Which times a message may have.
//!
//! A window is forgotten once every message in it is too old. That is sound only while the clock does not go back, so
//! what was forgotten leaves its newest time behind as a floor: after a step back of the clock nothing from under it
//! is let through. While the clock is steady the floor is always older than the oldest good message.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Now;

use super::{FUTURE_MS_MAX, PAST_MS_MAX, START_MS};

pub(super) struct Times {
    start_unix_ms: u64,
    /// Times up to this one are refused.
    floor_ms: AtomicU64,
}

impl Times {
    pub(super) fn new(now: Now) -> Times {
        let start_unix_ms = now.unix_ms;
        Times {
            start_unix_ms,
            floor_ms: AtomicU64::new(start_unix_ms.saturating_add(START_MS)),
        }
    }

    pub(super) fn ready_unix_ms(&self) -> u64 {
        self.start_unix_ms.saturating_add(START_MS + 1)
    }

    /// Whether a message of this time may be let through. Whoever asks holds the lock under which its window would have
    /// been forgotten, which orders this after the floor that was raised there.
    #[inline]
    pub(super) fn is_good(&self, ts_ms: u64, now: Now) -> bool {
        ts_ms > self.floor_ms.load(Ordering::Relaxed)
            && ts_ms <= now.unix_ms.saturating_add(FUTURE_MS_MAX)
            && now.unix_ms <= ts_ms.saturating_add(PAST_MS_MAX)
    }

    /// Refuses from now on what is not newer than `ts_ms`: a window is being forgotten.
    pub(super) fn raise(&self, ts_ms: u64) {
        self.floor_ms.fetch_max(ts_ms, Ordering::Relaxed);
    }
}

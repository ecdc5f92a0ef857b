//! The clock of leases and events: it never goes back, whatever the wall clock does.
//!
//! It starts at the later of the wall clock and the last event, and then counts the time since boot, which goes on while the
//! machine sleeps and which nobody can set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Reads the time.
#[derive(Debug)]
pub(crate) struct Clock {
    start_ms: AtomicU64,
    boot_ms: u64,
}

impl Clock {
    /// A clock that goes on from the last event at the earliest.
    pub(crate) fn from(last_ms: u64) -> Clock {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Clock::at(wall.max(last_ms))
    }

    /// A clock that goes on from a time that a server told.
    pub(crate) fn at(ms: u64) -> Clock {
        Clock {
            start_ms: ms.into(),
            boot_ms: boot_ms(),
        }
    }

    /// Sets the clock forward where it is behind what another saw. It is never set back.
    pub(crate) fn raise(&self, ms: u64) {
        let start = ms.saturating_sub(boot_ms().saturating_sub(self.boot_ms));
        self.start_ms.fetch_max(start, Ordering::AcqRel);
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.start_ms.load(Ordering::Acquire) + boot_ms().saturating_sub(self.boot_ms)
    }
}

fn boot_ms() -> u64 {
    let at = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(at.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(at.tv_nsec).unwrap_or_default();
    seconds * 1000 + nanos / 1_000_000
}

//! The open sessions, known to all threads, up to a bound.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;

use crate::target::chance::{Purpose, draw};

/// The most sessions open at once.
const SESSIONS_MAX: usize = 262_144;
/// Parts of the set, each with its own lock.
const PARTS: usize = 16;

pub(in crate::target) struct Sessions {
    parts: [Mutex<HashSet<Box<[u8]>>>; PARTS],
    open: AtomicUsize,
    /// How many ever began. A reset of the counts does not set it back, so no id comes twice.
    begun: AtomicU64,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions {
            parts: std::array::from_fn(|_| Mutex::new(HashSet::new())),
            open: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
        }
    }
}

impl Sessions {
    fn part(&self, id: &[u8]) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        // The last digits are those of a number that rises.
        let at = usize::from(id.last().copied().unwrap_or(0)) % PARTS;
        self.parts[at]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session; its id is the value for the header. None when too many are open.
    pub(super) fn begin(&self, seed: u64) -> Option<HeaderValue> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= SESSIONS_MAX {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let nth = self.begun.fetch_add(1, Ordering::Relaxed);
        let drawn = draw(seed, nth, Purpose::Session).u64(..);
        // The number keeps ids apart, whatever is drawn.
        let id = format!("{drawn:016x}{nth:08x}");
        self.part(id.as_bytes()).insert(id.as_bytes().into());
        HeaderValue::from_str(&id).ok()
    }

    pub(super) fn has(&self, id: &HeaderValue) -> bool {
        self.part(id.as_bytes()).contains(id.as_bytes())
    }

    pub(super) fn end(&self, id: &HeaderValue) {
        if self.part(id.as_bytes()).remove(id.as_bytes()) {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

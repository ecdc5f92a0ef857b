//! How a replica stands with its store: when it heard of it, how far its log is behind, and whether something is wrong that no
//! waiting mends.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Nothing waits.
const NEVER: u64 = u64::MAX;

/// Why calls are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreTrouble {
    /// Nothing was heard of the store for longer than that is allowed.
    Away,
    /// Records do not reach it for longer than that is allowed.
    Behind,
    /// What is there is not what this replica wrote: a fork, or a copy of its disk.
    Alarm(String),
}

/// What the two threads of a replica write, and everyone reads.
pub struct StoreStanding {
    began: Instant,
    outage_max: Duration,
    /// When the store was heard last, in milliseconds from the beginning.
    heard_ms: AtomicU64,
    /// Since when something waits without progress, in milliseconds from the beginning.
    waiting_ms: AtomicU64,
    /// Entries of this log that are in the store.
    shipped: AtomicU64,
    /// How far the store's clock is ahead of this machine's, in milliseconds.
    clock_ahead_ms: AtomicI64,
    alarm: Mutex<Option<String>>,
    /// Why it is away or behind, for the operator.
    why: Mutex<String>,
}

impl StoreStanding {
    /// One that was heard just now.
    pub fn new(outage_max: Duration) -> StoreStanding {
        StoreStanding {
            began: Instant::now(),
            outage_max,
            heard_ms: AtomicU64::new(0),
            waiting_ms: AtomicU64::new(NEVER),
            shipped: AtomicU64::new(0),
            clock_ahead_ms: AtomicI64::new(0),
            alarm: Mutex::new(None),
            why: Mutex::default(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    pub(super) fn heard(&self, clock_ahead_ms: i64) {
        self.heard_ms.store(self.now_ms(), Ordering::Relaxed);
        self.clock_ahead_ms.store(clock_ahead_ms, Ordering::Relaxed);
    }

    /// So many entries are in the store; `more` wait.
    pub(super) fn progress(&self, shipped: u64, more: bool) {
        self.shipped.store(shipped, Ordering::Relaxed);
        let waiting = if more { self.now_ms() } else { NEVER };
        self.waiting_ms.store(waiting, Ordering::Relaxed);
    }

    /// Something waits from now on, unless it did already.
    pub(super) fn waits(&self) {
        let now = self.now_ms();
        let _ = self
            .waiting_ms
            .compare_exchange(NEVER, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, why: &str) {
        let mut kept = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone_into(&mut kept);
    }

    pub(super) fn raise(&self, alarm: String) {
        tracing::error!(
            alarm,
            "the store does not hold what this replica wrote; all calls are refused"
        );
        let mut kept = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(alarm);
    }

    /// What calls are refused for, if anything.
    pub fn trouble(&self) -> Option<StoreTrouble> {
        let alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alarm) = &*alarm {
            return Some(StoreTrouble::Alarm(alarm.clone()));
        }
        let most = u64::try_from(self.outage_max.as_millis()).unwrap_or(NEVER);
        match () {
            () if self.silent_ms() > most => Some(StoreTrouble::Away),
            () if self.stuck_ms() > most => Some(StoreTrouble::Behind),
            () => None,
        }
    }

    /// For how long nothing was heard, in milliseconds.
    pub fn silent_ms(&self) -> u64 {
        let heard = self.heard_ms.load(Ordering::Relaxed);
        self.now_ms().saturating_sub(heard)
    }

    /// For how long records wait without progress, in milliseconds.
    pub fn stuck_ms(&self) -> u64 {
        match self.waiting_ms.load(Ordering::Relaxed) {
            NEVER => 0,
            since => self.now_ms().saturating_sub(since),
        }
    }

    /// Entries of this log that are in the store.
    pub fn shipped(&self) -> u64 {
        self.shipped.load(Ordering::Relaxed)
    }

    /// How far the store's clock is ahead of this machine's, in milliseconds.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.clock_ahead_ms.load(Ordering::Relaxed)
    }

    /// What went wrong last, for the operator.
    pub fn why(&self) -> String {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_longer_than_is_allowed_is_behind_and_progress_counts() {
        let standing = StoreStanding::new(Duration::from_millis(20));
        standing.heard(0);
        assert_eq!(standing.trouble(), None);
        standing.waits();
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(standing.trouble(), Some(StoreTrouble::Away));
        standing.heard(0);
        assert_eq!(standing.trouble(), Some(StoreTrouble::Behind));
        standing.progress(5, true);
        assert_eq!((standing.trouble(), standing.shipped()), (None, 5));
        standing.raise("a fork".to_owned());
        let alarm = StoreTrouble::Alarm("a fork".to_owned());
        assert_eq!(standing.trouble(), Some(alarm));
    }
}

//! How much CPU time handshakes may take: a token bucket for the whole instance.
//!
//! It exists because a decapsulation costs a thousand times what it costs to ask for one. It counts for
//! nobody in particular: a claimed peer id is free, so a quota by it would lock the real peer out.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Now;

/// What one handshake costs an inbound, in microseconds of CPU time (`cargo run --release -p seal
/// --example cost` on a machine of 2026, rounded up).
pub const HANDSHAKE_CPU_US: u64 = 1_000;
/// How much of the budget may be saved up and spent at once, in microseconds of time.
const SAVED_US_MAX: u64 = 1_000_000;

/// A token bucket, kept as the time at which it is full again.
pub struct Budget {
    /// How long the bucket takes to earn one handshake, in microseconds.
    earns_us: u64,
    /// The time until which the budget is spent, in microseconds of the monotonic clock.
    spent_until_us: AtomicU64,
}

impl Budget {
    /// A budget of this much CPU time in each second, in microseconds; 100,000 is a tenth of a core. At
    /// least one handshake a second.
    pub fn new(cpu_us_per_s: u64) -> Budget {
        let earns_us = HANDSHAKE_CPU_US * 1_000_000 / cpu_us_per_s.max(1);
        Budget {
            earns_us: earns_us.min(SAVED_US_MAX),
            spent_until_us: AtomicU64::new(0),
        }
    }

    /// Whether a handshake could be paid for now.
    pub(super) fn has_room(&self, now: Now) -> bool {
        self.after(self.spent_until_us.load(Ordering::Relaxed), now)
            .is_some()
    }

    /// Pays for one handshake, if there is enough.
    pub(super) fn take(&self, now: Now) -> bool {
        let pay = |until| self.after(until, now);
        self.spent_until_us
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay)
            .is_ok()
    }

    fn after(&self, spent_until_us: u64, now: Now) -> Option<u64> {
        let now_us = now.mono_ms.saturating_mul(1_000);
        let after = spent_until_us.max(now_us) + self.earns_us;
        (after - now_us <= SAVED_US_MAX).then_some(after)
    }
}

impl Default for Budget {
    /// A tenth of one core.
    fn default() -> Budget {
        Budget::new(100_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64) -> Now {
        let unix_ms = 1_700_000_000_000;
        Now { unix_ms, mono_ms }
    }

    #[test]
    fn a_second_is_saved_up_and_no_more() {
        let budget = Budget::new(100 * HANDSHAKE_CPU_US);
        for now in [0, 1_000_000] {
            for n in 0..100 {
                assert!(budget.has_room(at(now)) && budget.take(at(now)), "{n}");
            }
            assert!(!budget.has_room(at(now)) && !budget.take(at(now)));
            assert!(!budget.take(at(now + 9)));
            assert!(budget.take(at(now + 10)));
            assert!(!budget.take(at(now + 10)));
        }
    }

    #[test]
    fn the_smallest_budget_is_one_a_second() {
        for budget in [Budget::new(0), Budget::new(1)] {
            assert!(budget.take(at(5)));
            assert!(!budget.take(at(1_004)));
            assert!(budget.take(at(1_005)));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test has threads of its own")]
    fn threads_together_get_no_more_than_one() {
        let budget = Budget::new(1_000 * HANDSHAKE_CPU_US);
        let taken: usize = std::thread::scope(|scope| {
            let thread = || (0..1_000).filter(|_| budget.take(at(7))).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(thread)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(taken, 1_000);
    }
}

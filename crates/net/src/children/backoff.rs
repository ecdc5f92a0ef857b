//! How long to wait before a child is started again. Pure arithmetic: the time is passed in.

use base::limit::BACKOFF_MS;

/// Doubles the wait with each early end, and forgets them after a run that was long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    wait_ms: u64,
    started_ms: u64,
}

impl Backoff {
    pub fn new() -> Backoff {
        Backoff {
            wait_ms: BACKOFF_MS.0,
            started_ms: 0,
        }
    }

    /// The child was started at `now_ms`, in milliseconds of a clock that never goes back.
    pub fn started(&mut self, now_ms: u64) {
        self.started_ms = now_ms;
    }

    /// The child ended, or could not be started, at `now_ms`. Returns how long to wait, in milliseconds.
    ///
    /// A child that ran for the longest wait or more was healthy: the next wait is the first one again.
    pub fn ended(&mut self, now_ms: u64) -> u64 {
        if now_ms.saturating_sub(self.started_ms) >= BACKOFF_MS.1 {
            self.wait_ms = BACKOFF_MS.0;
        }
        let wait_ms = self.wait_ms;
        self.wait_ms = (wait_ms * 2).min(BACKOFF_MS.1);
        // A start that never comes must not look like a long run.
        self.started_ms = now_ms.saturating_add(wait_ms);
        wait_ms
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    #[test]
    fn waits_double_up_to_the_bound() {
        let mut backoff = Backoff::new();
        let mut now = 1_000_000;
        let waits: Vec<_> = (0..11)
            .map(|_| {
                backoff.started(now);
                now += 5;
                let wait = backoff.ended(now);
                now += wait;
                wait
            })
            .collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[9..], [30_000, 30_000]);
    }

    #[test]
    fn a_healthy_run_forgets() {
        let mut backoff = Backoff::new();
        backoff.started(0);
        assert_eq!(backoff.ended(1), 100);
        assert_eq!(backoff.ended(101), 200);
        backoff.started(1_000);
        assert_eq!(backoff.ended(30_999), 400);
        backoff.started(40_000);
        assert_eq!(backoff.ended(70_000), 100);
    }

    #[test]
    fn the_clock_may_not_frighten_it() {
        let mut backoff = Backoff::new();
        backoff.started(u64::MAX);
        assert_eq!(backoff.ended(0), 100);
        assert_eq!(backoff.ended(u64::MAX), 100);
    }
}

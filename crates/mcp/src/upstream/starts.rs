//! When a child of a server may be started: one wait for all sessions of the server.
//!
//! A child that ends before it has said anything says that the server cannot run, whoever asked for it. Its next start waits,
//! twice as long each time, and one session at a time tries. Example: ten sessions begin with a server that exits at once;
//! the first starts it, the others are refused with the time to wait. A child that spoke and ended later is another matter:
//! what one agent asked may have ended it, so it holds back its own link alone ([`super::Link`]).

use net::Backoff;

/// How long a child that is started on trial keeps others from being started, unless it says something, in milliseconds.
const TRIAL_MS: u64 = 1_000;

/// The starts of one server's children.
#[derive(Debug, Default)]
pub(crate) struct ServerStarts {
    backoff: Backoff,
    not_before_ms: u64,
    /// The last child that ended said nothing, and none has spoken since.
    is_failing: bool,
    /// When that child ended.
    failed_ms: u64,
}

impl ServerStarts {
    /// Asks whether a child may be started now.
    ///
    /// # Errors
    /// How long to wait, in milliseconds.
    pub(super) fn begin(&mut self, now_ms: u64) -> Result<(), u64> {
        if now_ms < self.not_before_ms {
            return Err(self.not_before_ms - now_ms);
        }
        if self.is_failing {
            self.not_before_ms = now_ms + TRIAL_MS;
        }
        Ok(())
    }

    /// A child ended, or could not be started, and had said nothing.
    pub(super) fn ended_silent(&mut self, started_ms: u64, now_ms: u64) {
        // One that ran already when another failed is part of the same failure.
        if self.is_failing && started_ms < self.failed_ms {
            return;
        }
        self.failed_ms = now_ms;
        self.backoff.started(started_ms);
        self.not_before_ms = now_ms + self.backoff.ended(now_ms);
        self.is_failing = true;
    }

    /// A child said something.
    pub(super) fn spoke(&mut self) {
        *self = ServerStarts::default();
    }

    /// The server was asked and works: the next start need not wait.
    pub(crate) fn retry_now(&mut self) {
        self.not_before_ms = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_run_is_started_ever_less_often() {
        let mut starts = ServerStarts::default();
        let (mut now_ms, mut begun) = (1_000, Vec::new());
        while now_ms < 11_000 {
            if starts.begin(now_ms).is_ok() {
                begun.push(now_ms - 1_000);
                starts.ended_silent(now_ms, now_ms + 5);
            }
            now_ms += 5;
        }
        assert_eq!(begun, [0, 105, 310, 715, 1_520, 3_125, 6_330]);
    }

    #[test]
    fn one_session_at_a_time_tries() {
        let mut starts = ServerStarts::default();
        assert_eq!((starts.begin(10), starts.begin(10)), (Ok(()), Ok(())));
        starts.ended_silent(10, 20);
        starts.ended_silent(10, 21);
        assert_eq!(starts.begin(21), Err(99));
        assert_eq!(starts.begin(300), Ok(()));
        assert_eq!(starts.begin(300), Err(TRIAL_MS));
        starts.spoke();
        assert_eq!((starts.begin(301), starts.begin(301)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_server_that_works_again_is_not_waited_for() {
        let mut starts = ServerStarts::default();
        starts.ended_silent(0, 1);
        assert!(starts.begin(50).is_err());
        starts.retry_now();
        assert_eq!(starts.begin(50), Ok(()));
    }
}

//! How a call is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Gives up a call, from another thread or at a time.
#[derive(Clone, Default)]
pub struct Cancel {
    given_up: Arc<AtomicBool>,
    at: Option<Instant>,
}

impl Cancel {
    /// A call that goes on until [`Cancel::cancel`].
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// A call that is given up after a while, too.
    pub fn after(time: Duration) -> Cancel {
        let at = Instant::now().checked_add(time);
        Cancel {
            given_up: Arc::default(),
            at,
        }
    }

    /// The same call, given up after a while, too; the sooner of two ends counts.
    pub(crate) fn within(&self, time: Duration) -> Cancel {
        let at = Instant::now().checked_add(time);
        Cancel {
            given_up: Arc::clone(&self.given_up),
            at: [self.at, at].into_iter().flatten().min(),
        }
    }

    /// Gives it up.
    pub fn cancel(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it was given up.
    pub fn is_cancelled(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) || self.at.is_some_and(|at| Instant::now() >= at)
    }
}

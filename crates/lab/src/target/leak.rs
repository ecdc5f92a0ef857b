//! Memory that a target keeps more and more, at a known pace, so that what looks for leaks can be held to the truth.
//!
//! What is kept is written to, so that it is resident, and is bounded. With a period all of it is given back now and
//! then, as a garbage collector does: that is a saw, and no leak.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Error;

/// How often more is kept.
const STEP: Duration = Duration::from_millis(50);
/// The most that is kept, in bytes; then it stays at that.
const LEAK_BYTES_MAX: u64 = 1 << 30;

/// How fast memory is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    pub bytes_a_minute: u64,
    /// All of it is given back each time this has passed; never, where it is none.
    pub given_back_every: Option<Duration>,
}

impl Leak {
    /// Begins to lose memory, from now until the target stops.
    pub(super) fn start(self, stopped: watch::Receiver<bool>) -> Result<JoinHandle<()>, Error> {
        let named = std::thread::Builder::new().name("target-leak".into());
        let started = named.spawn(move || self.run(&stopped));
        started.map_err(|error| Error::Machine(format!("cannot start a thread: {error}")))
    }

    fn run(self, stopped: &watch::Receiver<bool>) {
        let (mut kept, mut bytes): (Vec<Vec<u8>>, u64) = (Vec::new(), 0);
        let mut since = Instant::now();
        while !*stopped.borrow() && stopped.has_changed().is_ok() {
            let elapsed = since.elapsed();
            if self.given_back_every.is_some_and(|every| elapsed >= every) {
                (kept, bytes, since) = (Vec::new(), 0, Instant::now());
            }
            let due = self.bytes_a_minute as f64 * since.elapsed().as_secs_f64() / 60.0;
            let more = (due as u64).min(LEAK_BYTES_MAX).saturating_sub(bytes);
            // Written, and so resident: pages that were never written to cost nothing.
            kept.push(vec![0x77; more as usize]);
            bytes += more;
            std::thread::sleep(STEP);
        }
        drop(kept);
    }
}

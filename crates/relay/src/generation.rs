//! The generation of the machine, which all threads of a relay share: senders that were used in another are dropped.
//!
//! One thread listens, for as long as it serves. Where the system tells nothing the generation stays what it is, and
//! only a suite that bears repeated nonces protects a clone (`docs/relay-protocol.md`, section 7).

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use net::Generations;
use tokio::task::spawn_local;

/// Counts generations since the start.
#[derive(Clone, Default)]
pub(crate) struct Generation(Arc<State>);

#[derive(Default)]
struct State {
    number: AtomicU64,
    is_watched: AtomicBool,
}

impl Generation {
    pub(crate) fn now(&self) -> u64 {
        self.0.number.load(Ordering::Relaxed)
    }

    /// Has this thread listen, if no other does. Must be called inside a `LocalSet`.
    pub(crate) fn watch(&self) {
        if !self.0.is_watched.swap(true, Ordering::Relaxed) {
            spawn_local(watch(self.clone()));
        }
    }

    fn next(&self) {
        self.0.number.fetch_add(1, Ordering::Relaxed);
    }
}

async fn watch(generation: Generation) {
    let Err(error) = listen(&generation).await;
    tracing::debug!(target: "relay", %error, "the system does not tell whether the machine is cloned");
}

async fn listen(generation: &Generation) -> io::Result<Infallible> {
    let generations = Generations::listen()?;
    loop {
        generations.changed().await?;
        generation.next();
        tracing::warn!(target: "relay", "the machine was cloned or restored: senders draw new ids");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_see_one_number() {
        let generation = Generation::default();
        let other = generation.clone();
        assert_eq!(other.now(), 0);
        generation.next();
        assert_eq!(other.now(), 1);
    }
}

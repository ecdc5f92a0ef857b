//! The word to stop, told once and heard by every thread.
//!
//! It cannot be taken back.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells all who hold a clone that the process is stopping.
#[derive(Clone, Debug)]
pub struct Drain(Arc<watch::Sender<bool>>);

impl Drain {
    pub fn new() -> Drain {
        Drain(Arc::new(watch::Sender::new(false)))
    }

    /// Starts the drain; a second time changes nothing.
    pub fn start(&self) {
        self.0.send_replace(true);
    }

    pub fn is_started(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the drain is started.
    pub async fn started(&self) {
        let mut watch = self.0.subscribe();
        watch
            .wait_for(|started| *started)
            .await
            .expect("the sender lives as long as self");
    }
}

impl Default for Drain {
    fn default() -> Drain {
        Drain::new()
    }
}

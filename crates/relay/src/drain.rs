//! The drain of a relay: for a moment every answer says that its connection ends, and only then the idle ones are closed.
//!
//! HTTP/1.1 has no way to refuse a request on a connection that is being closed: whoever sends one at that moment does
//! not know what became of it. So those who still send are told first, and whoever asks for health learns it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::{Drain, EdgeShared};

/// How long connections are told before the idle ones are closed, in milliseconds.
const TELL_MS: u64 = 1_000;
/// How often it is looked whether there are any left, in milliseconds.
const LOOK_MS: u64 = 20;

/// Waits for the word to stop, says so in `draining`, and starts `inner` when all were told.
pub(crate) async fn tell(
    told: Drain,
    inner: Drain,
    draining: Arc<AtomicBool>,
    shared: Arc<EdgeShared>,
) {
    told.started().await;
    draining.store(true, Ordering::Relaxed);
    for _ in 0..TELL_MS / LOOK_MS {
        if shared.connections() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
    inner.start();
}

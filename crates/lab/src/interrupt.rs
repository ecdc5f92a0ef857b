//! Ctrl-C: the first asks a run to stop and write what it has, the second ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Failure};

static ASKED: AtomicBool = AtomicBool::new(false);
static LISTENING: Once = Once::new();

/// Begins to listen for SIGINT and SIGTERM.
///
/// # Errors
///
/// No thread can be started.
pub(crate) fn listen() -> Result<(), Failure> {
    let mut started = Ok(());
    LISTENING.call_once(|| {
        let thread = std::thread::Builder::new().name("interrupt".into());
        started = thread.spawn(wait).map(|_| ());
    });
    started.map_err(|error| Failure::new(format!("no thread can be started: {error}"), ""))
}

/// Whether the run was asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

fn wait() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    // Without a runtime the signals keep their default: they end the process.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let (Ok(mut int), Ok(mut term)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        ) else {
            return;
        };
        loop {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            if ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
        }
    });
}

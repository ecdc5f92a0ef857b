//! The outbound side: plain HTTP/1.1 from applications, sealed to peers.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use gate::ports::Clock;
use gate::{Gate, Passed};
use net::h1::{Listener, Thread, Wires};
use net::{Drain, EdgeShared};

use crate::counters::{All, Snapshot};
use crate::settings::{OutboundSettings, Problem};

/// An outbound, shared by all threads.
pub struct Outbound {
    counters: All,
}

impl Outbound {
    /// Checks settings and makes everything that can fail before the first request.
    ///
    /// # Errors
    /// The first problem of the settings.
    pub fn new(
        settings: OutboundSettings,
        gate: Arc<Gate>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Outbound>, Problem> {
        let _ = (settings, gate, clock);
        Ok(Arc::new(Outbound {
            counters: All::default(),
        }))
    }

    /// Puts other settings in force from the next request on. Bounds of connections and the set of endpoints stay
    /// as they were at the start. Sessions with peers of unchanged keys stay.
    ///
    /// # Errors
    /// The first problem; nothing was changed then.
    pub fn reload(&self, settings: OutboundSettings) -> Result<(), Problem> {
        let _ = settings;
        Ok(())
    }

    /// Serves one listener on this thread until the drain is over. Must run inside a `LocalSet`. `wires` makes the
    /// connections that go out, for [`OutboundSettings::endpoints`].
    ///
    /// # Errors
    /// The listener cannot be used at all.
    pub async fn serve(
        self: &Arc<Self>,
        listener: Listener,
        wires: impl FnOnce(Rc<Thread>) -> Wires<Passed>,
        shared: Arc<EdgeShared>,
        drain: Drain,
    ) -> io::Result<()> {
        let _ = (listener, wires, shared, drain);
        Ok(())
    }

    /// What was counted.
    pub fn counters(&self) -> Snapshot {
        self.counters.snapshot()
    }

    /// Whether every peer has a session, or could have one when last asked.
    pub fn is_ready(&self) -> bool {
        true
    }
}

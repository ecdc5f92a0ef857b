//! Who is enrolled at an inbound: the port that handshakes and messages ask.
//!
//! It exists so that authority is looked up where it is kept, on every message, and never read from a
//! ticket. It refuses to say more than one entry at a time.

use std::collections::HashMap;

use crate::key::{PeerId, Psk, Public};
use crate::ticket::Mode;

/// An outbound that may talk to us.
pub struct Peer {
    pub public: Public,
    /// The key of this pair, where one is configured.
    pub psk: Option<Psk>,
    /// What new sessions are promised about replays.
    pub mode: Mode,
    /// Sessions from before this time are refused, in Unix milliseconds.
    pub sessions_after_unix_ms: u64,
}

/// The enrolled peers as they are now.
pub trait Peers {
    /// The peer of this id. Nothing if it is not enrolled, or no longer.
    fn peer(&self, id: &PeerId) -> Option<&Peer>;
}

impl Peers for HashMap<PeerId, Peer> {
    fn peer(&self, id: &PeerId) -> Option<&Peer> {
        self.get(id)
    }
}

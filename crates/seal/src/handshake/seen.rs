//! The mac1 of the last handshakes that were opened, so that a captured one costs nothing twice.
//!
//! It exists to save work, not to keep a secret: what a replayed init yields only its sender could open.
//! It refuses to grow.

use std::collections::HashSet;

/// How many are remembered.
pub const MACS_KEPT: usize = 65_536;

/// A ring of check codes, and where to find one in it.
#[derive(Default)]
pub(super) struct Seen {
    ring: Vec<[u8; 16]>,
    next: usize,
    all: HashSet<[u8; 16]>,
}

impl Seen {
    pub(super) fn has(&self, mac: &[u8; 16]) -> bool {
        self.all.contains(mac)
    }

    /// Remembers one, in place of the oldest if need be. False if it was there.
    pub(super) fn add(&mut self, mac: [u8; 16]) -> bool {
        if !self.all.insert(mac) {
            return false;
        }
        if self.ring.len() < MACS_KEPT {
            self.ring.push(mac);
        } else {
            self.all.remove(&self.ring[self.next]);
            self.ring[self.next] = mac;
            self.next = (self.next + 1) % MACS_KEPT;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_65_536_are_known_and_no_more() {
        let mac = |n: usize| (n as u128).to_be_bytes();
        let mut seen = Seen::default();
        for n in 0..MACS_KEPT * 2 + 10 {
            assert!(!seen.has(&mac(n)) && seen.add(mac(n)) && !seen.add(mac(n)));
        }
        assert_eq!((seen.ring.len(), seen.all.len()), (MACS_KEPT, MACS_KEPT));
        assert!(!seen.has(&mac(MACS_KEPT + 9)));
        assert!(seen.has(&mac(MACS_KEPT + 10)));
    }
}

//! The body of a request that goes up piece by piece, kept so that another attempt can send it again.
//!
//! A body of at most a megabyte is kept, and of one thread's together no more than some: a request over that goes up
//! once, as one of unknown length does.

use std::cell::Cell;
use std::rc::Rc;

use crate::outer::GATHER_BYTES_MAX;

/// Bytes of bodies that one thread keeps at once.
const THREAD_BYTES_MAX: u64 = 16 << 20;

/// What the requests of one thread keep.
#[derive(Default)]
pub(super) struct Room(Rc<Cell<u64>>);

impl Room {
    /// Room for a body of so many bytes; nothing if there is none.
    pub(super) fn keep(&self, bytes: u64) -> Option<Kept> {
        let taken = self.0.get().checked_add(bytes)?;
        if bytes > GATHER_BYTES_MAX || taken > THREAD_BYTES_MAX {
            return None;
        }
        self.0.set(taken);
        Some(Kept {
            bytes: Vec::new(),
            sent: 0,
            taken: bytes,
            room: Rc::clone(&self.0),
        })
    }
}

/// What came of one body so far, and how much of it this attempt has sent.
pub(super) struct Kept {
    bytes: Vec<u8>,
    sent: usize,
    taken: u64,
    room: Rc<Cell<u64>>,
}

impl Kept {
    /// Another attempt begins.
    pub(super) fn again(&mut self) {
        self.sent = 0;
    }

    /// What came before and this attempt has not sent yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// So much of the rest was sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// This came and was sent.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.sent = self.bytes.len();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.set(self.room.get().saturating_sub(self.taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_kept_and_its_room_is_given_back() {
        let room = Room::default();
        assert!(room.keep(GATHER_BYTES_MAX + 1).is_none());
        let mut all: Vec<Kept> = std::iter::from_fn(|| room.keep(GATHER_BYTES_MAX)).collect();
        assert_eq!(all.len() as u64, THREAD_BYTES_MAX / GATHER_BYTES_MAX);
        assert!(room.keep(1).is_none());
        all.pop();
        let mut kept = room.keep(1).unwrap();
        kept.add(b"one");
        kept.add(b"two");
        assert_eq!(kept.rest(), b"");
        kept.again();
        kept.sent(2);
        assert_eq!(kept.rest(), b"etwo");
    }
}

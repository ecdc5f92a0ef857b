//! The nonce audit: remembers every (key, nonce) that sealed something, and counts repeats.
//!
//! It exists for tests alone, here and in the relay: no release is built with it. It is off until a test
//! begins it, and process-wide, so that seals of all threads are held against each other.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

static SEEN: Mutex<Option<Audit>> = Mutex::new(None);

/// What was sealed since [`begin`].
#[derive(Default)]
pub struct Audit {
    seen: HashSet<([u8; 16], [u8; 12])>,
    /// Seals.
    pub seals: u64,
    /// Seals with a key and a nonce that had sealed before. There must be none.
    pub repeats: u64,
}

/// Begins to record, with nothing seen.
pub fn begin() {
    *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Audit::default());
}

/// Ends the recording. Nothing if none was begun.
pub fn end() -> Option<Audit> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Seals and repeats since [`begin`]; zeros if none was begun.
pub fn so_far() -> (u64, u64) {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.as_ref()
        .map_or((0, 0), |audit| (audit.seals, audit.repeats))
}

pub(crate) fn record(key: [u8; 16], nonce: [u8; 12]) {
    if let Some(audit) = &mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner) {
        audit.seals += 1;
        audit.repeats += u64::from(!audit.seen.insert((key, nonce)));
    }
}

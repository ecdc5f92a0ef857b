//! Messages of A2A: requests, answers, and cards.

/// The same bytes as each of them.
pub fn a2a_messages(data: &[u8]) {
    a2a::fuzzing::read(data);
}

//! The sealed hop: handshake, tickets, sealed messages, Binary HTTP and replay windows of SHR/1.
//!
//! It exists so that two weirs can talk through whatever stands between them and trust only each other.
//! `docs/relay-protocol.md` is its specification. It refuses to do I/O, to read a clock and to draw
//! randomness: bytes, times and random bytes are passed in, so that each message can be replayed in a test.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod answer;
pub mod chunk;
mod error;
pub mod handshake;
pub mod head;
pub mod hint;
mod inbox;
mod key;
pub mod keytext;
mod outbox;
mod padding;
mod peers;
mod random;
mod sender;
pub mod session;
mod suite;
pub mod ticket;

#[cfg(any(test, feature = "audit"))]
pub mod audit;

mod aead;
mod kem;
mod schedule;
mod table;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Code, Executed};
pub use chunk::{ChunkHead, Opening, Piece, Sealing};
pub use error::{Error, Refused};
pub use handshake::{Budget, Guard, Outbound, Pending, Responder, initiate};
pub use hint::{Advice, Hint};
pub use inbox::{Inbox, Incoming, Opened, Request, Today};
pub use key::{Identity, JoinToken, Key32, Kid, PeerId, Pin, Psk, Public, SenderId, Sid};
pub use outbox::{Answering, Outbox, Response};
pub use padding::padding_bytes;
pub use peers::{Peer, Peers};
pub use random::{IdRandom, InitRandom, Random, ReplyRandom};
pub use sender::{Attempt, Moment, RequestSender, ResponseSender, Voice};
pub use session::Session;
pub use suite::Suite;
pub use ticket::{Mode, Tek, TekRing};
pub mod bhttp;
pub mod replay;

//! The sealed hop: handshake, tickets, sealed messages, Binary HTTP and replay windows of SHR/1.
//!
//! It exists so that two weirs can talk through whatever stands between them and trust only each other.
//! `docs/relay-protocol.md` is its specification. It refuses to do I/O, to read a clock and to draw
//! randomness: bytes, times and random bytes are passed in, so that each message can be replayed in a test.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

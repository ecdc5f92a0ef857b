//! The sealed relay: two weirs that carry HTTP requests through whatever stands between them.
//!
//! The **outbound** one takes plain HTTP/1.1 from applications, seals each request whole and sends it to a peer; the
//! **inbound** one opens it, lets it through once, and speaks plain HTTP/1.1 to the origin; answers make the same trip
//! back. This lane routes, asks the gate, keeps sessions, retries and counts. Messages are `seal`'s, sockets are
//! `net`'s. It believes nothing that is not sealed, repairs nothing, and never passes off a cut as an end. CONNECT and
//! Upgrade are refused. `docs/relay-protocol.md` is what it speaks.
//!
//! Each thread runs [`Outbound::serve`] or [`Inbound::serve`] with a listener and connections of its own.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod actions;
pub mod configured;
pub mod counters;
pub mod doctor;
pub mod import;
mod inbound;
mod outbound;
pub mod section;
pub mod settings;

mod callers;
mod connection;
mod generation;
mod grants;
mod once;
mod outer;
mod plain;
mod random;
mod refuse;
mod routes;
mod said;

pub use actions::LANE;
pub use counters::Snapshot;
pub use inbound::Inbound;
pub use once::{ClaimAnswer, ClaimName, Claims, ClaimsState, Later, ticket_place};
pub use outbound::Outbound;
pub use seal::keytext::{PeerKey, TicketKey};
pub use seal::{Key32, Mode};
pub use settings::{
    Agent, Callers, Enrolled, HostMatch, InboundSettings, Mutual, OutboundSettings, Peer, Problem,
    Route, TicketKeys, To, Token,
};

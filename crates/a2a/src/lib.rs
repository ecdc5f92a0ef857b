//! A2A: agents of others, behind `/a2a/<name>`, by JSON-RPC in the words of A2A 1.0 and 0.3.
//!
//! A message is forwarded in the version that its client speaks, judged on its way there and back. Versions are not
//! translated. Three things are weir's own: the card, which says weir's URL and is pinned like the definition of a tool; whose
//! task is whose; and what is refused by name: push notifications, since the agent would call an address that weir never
//! sees, and extended cards. The bindings to gRPC and to HTTP+JSON are not carried.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod lane;

mod actions;
mod method;
mod request;

mod card;
mod look;
mod send;

mod answer;
mod stream;

mod refuse;
pub mod section;

#[doc(hidden)]
pub mod fuzzing;

pub use actions::{CANCEL, CARD, LANE, READ, SEND};
pub use lane::{A2aLane, RemoteAgent, Settings, Shared};
pub use refuse::refuse;

//! The MCP lane: MCP in, MCP out.
//!
//! A request comes in at `/mcp/<server>`, becomes a [`gate::Call`], and goes on as the bytes that came, to
//! a server over streamable HTTP or to a child process over stdio. What comes back is scanned message by
//! message. The lane knows the protocol and nothing of policy.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

pub mod actions;

mod drive;
mod era;
mod hub;
mod inbound;
mod incoming;
mod lane;
mod upstream;

mod answers;
mod batch;
mod calls;
mod listing;
mod probe;
mod token;
mod waiting;

mod declared;
mod methods;
mod shape;
mod withheld;

mod refuse;

pub mod stdio;

pub mod envelope;
pub mod fuzzing;
pub mod metrics;
pub mod section;

use net::origin;

pub use actions::LANE;
pub use hub::ALL as ALL_SERVERS;
pub use lane::{AGENT, ItemWords, McpLane, Retired, Server, ServerKind, Settings, Shared, Toolset};
pub use probe::{Health, ServerState, probe};
pub use refuse::refuse;

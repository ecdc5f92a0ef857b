//! The MCP servers that weir ships, run as children of the same binary.
//!
//! They exist so that an agent has something real to use with no other software installed. They know nothing of
//! the gateway: each is judged like any other server, and has no privilege that others lack. They refuse to
//! touch what their settings do not name.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

pub mod code;
pub mod section;
pub mod serve;

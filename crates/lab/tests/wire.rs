//! The engine for TLS, HTTP/2, MCP and streams, against servers that the tests make.
//!
//! Counts are exact and compared with what the server counted. Times are compared with delays that the server was
//! told, within bounds that a busy machine keeps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "wire/http.rs"]
mod http_versions;
#[path = "wire/mcp.rs"]
mod mcp;
#[path = "wire/rig.rs"]
mod rig;
#[path = "wire/schedule.rs"]
mod schedule;
#[path = "wire/secure.rs"]
mod secure;
#[path = "wire/streams.rs"]
mod streams;
#[path = "wire/target.rs"]
mod target;

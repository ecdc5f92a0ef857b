//! Work tracking: projects, work items, who works on what, what was deployed, and typed entities, as an MCP server.
//!
//! `model` says what may be and what may follow what, without I/O. `store` keeps it: one SQLite file or a PostgreSQL database, one thread that
//! writes, an append-only log of events. `ops` are the calls, `table` names them for MCP, `compat` answers under the names of
//! workflow-mcp. It refuses what collides: a write says which version it changes, a claim ends, and its token with it.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

pub mod exchange;
pub mod model;
pub mod ops;
pub mod store;
pub mod table;

mod compat;
mod service;

#[cfg(test)]
mod tests;

pub use service::{Desk, Flow, Settings, author};

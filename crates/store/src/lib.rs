//! All that the gateway keeps: the log of what happened, the limits, who is known, and which tools are
//! approved.
//!
//! It implements the ports of `gate`. The log is the part to read first: records are chained, put in a
//! Merkle tree and signed ([`log`]), and checked without the gateway ([`audit`]).

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod agents;
pub mod authority;
pub mod directory;
mod limits;
pub mod pins;
pub mod pkcs11;
mod plain;
pub mod replica;
pub mod runs;
pub mod tasks;
pub mod usage;
mod windows;

pub mod audit;
pub mod log;
pub mod state;

mod entry;
pub mod note;
mod operator;
mod tree;
mod unsigned;

pub mod disk;
pub mod sealed;
pub mod section;

pub use agents::Agents;
pub use limits::Limits;
pub use log::{Durability, Log, LogError, LogSettings, LogStats};
pub use pins::Pins;
pub use plain::open_plain;
pub use state::{State, StateError};
pub use tasks::{OwnedKind, TaskClaim, TaskOwners};
pub use windows::BudgetStanding;
